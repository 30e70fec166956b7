"""What the log writes it reads back, whatever the values."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.batch import Balance, Batch, WrittenFile
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, SchemaId, SchemaKey
from spark_jobs.protocol.progress_parts import SavedDeadLetters
from spark_jobs.protocol.work import WORKS
from spark_jobs.txlog.entries import _ENTRY_TYPES, entry_to_json, fold, object_name

integers = st.integers(0, 2**63)
texts = st.text(max_size=20)
balances = st.builds(
    Balance,
    st.dictionaries(texts, integers, max_size=2),
    rows=integers,
    dead_letters=integers,
    tombstones=integers,
    gaps=integers,
)
files = st.lists(st.builds(WrittenFile), max_size=2).map(tuple)
json_objects = st.dictionaries(texts, st.none() | st.booleans() | integers | texts, max_size=3)


@st.composite
def offset_ranges(draw: st.DrawFn) -> OffsetRanges:
    """Any ranges, empty ones and none included."""
    partitions = draw(st.lists(st.integers(0, 99), unique=True, max_size=4))
    return OffsetRanges.of(OffsetRange(p, *sorted((draw(integers), draw(integers)))) for p in partitions)


VALUES = {
    "str": texts,
    "str | None": st.none() | texts,
    "int": integers,
    "int | None": st.none() | integers,
    "tuple[str, ...]": st.lists(texts, max_size=3).map(tuple),
    "tuple[WrittenFile, ...]": files,
    "dict[str, tuple[WrittenFile, ...]]": st.dictionaries(texts, files, max_size=2),
    "tuple[dict[str, Any], ...]": st.lists(json_objects, max_size=3).map(tuple),
    "dict[str, str]": st.dictionaries(texts, texts, max_size=3),
    "dict[str, int]": st.dictionaries(texts, integers, max_size=3),
    "dict[int, int]": st.dictionaries(integers, integers, max_size=3),
    "dict[int, Balance]": st.dictionaries(integers, balances, max_size=3),
    "tuple[SchemaKey, ...]": st.lists(st.builds(SchemaKey, st.builds(SchemaId, st.integers(0, 99)))).map(
        tuple
    ),
    "SavedDeadLetters | None": st.none() | st.builds(SavedDeadLetters),
    "OffsetRanges": offset_ranges(),
    "Work": st.sampled_from(sorted(WORKS.values(), key=str)),
}
entries = st.sampled_from(list(_ENTRY_TYPES.values())).flatmap(
    lambda kind: st.builds(kind, **{f.name: VALUES[str(f.type)] for f in fields(kind)})
)
batches = st.builds(Batch, **{f.name: VALUES[str(f.type)] for f in fields(Batch)})


@given(entry=entries, batch=batches, table_uuid=texts)
def test_fold_undoes_write(entry, batch, table_uuid) -> None:
    """Every entry of every phase comes back equal, with its batch."""
    name = object_name(entry.phase, 4)
    attempt = fold(table_uuid, batch.attempt, {name: entry_to_json(entry, batch, table_uuid)})
    assert attempt.entries == (entry,)
    assert attempt.batch == batch


@given(
    text=st.text(max_size=60), name=st.sampled_from(["1-OffsetCommit.json", "6-FlushComplete.json", "junk"])
)
def test_garbage_never_raises(text, name) -> None:
    """Any text in any object is a phase that did not happen."""
    assert fold("t", "a", {name: text}).entries == ()
