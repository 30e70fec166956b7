"""Schemas that are kept: asked for once, the same for ever, checked whenever they are read."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.errors import ConfigError, CorruptLog
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry.schema_store import FOLDER, SchemaStore
from spark_jobs.schema.writer_schema import Language, SchemaText
from spark_jobs.storage.create_only import CreateOnlyStore

if TYPE_CHECKING:
    from pathlib import Path

SEVEN, EIGHT = SchemaId(7), SchemaId(8)
GUID = SchemaId("0a0b0c0d-0000-4000-8000-00000000000f")


def schema(text: str) -> SchemaText:
    """Return a schema with a reference, whose text is as odd as texts get."""
    return SchemaText(Language.PROTOBUF, f"{text} ü \u0000 \"'", (("a/b.proto", "import"),))


class RegistryStub:
    """A registry that counts what it is asked; with no schemas it is emptied, with None away."""

    def __init__(self, **texts: str) -> None:
        self.schemas: dict[SchemaId, SchemaText] | None = {
            SchemaId.parse(name.lstrip("_").replace("_", "-")): schema(text) for name, text in texts.items()
        }
        self.questions: Counter[SchemaId] = Counter()

    def try_out(self) -> str:
        """Answer."""
        return "it answers"

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """Return what it has."""
        self.questions[schema_id] += 1
        assert self.schemas is not None, f"the registry is gone, and was asked for {schema_id}"
        return self.schemas.get(schema_id)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return the schema whose id the subject is called."""
        assert self.schemas is not None
        assert version in {None, 1}
        return SchemaId.parse(subject), self.schemas[SchemaId.parse(subject)]


@pytest.fixture
def store(tmp_path: Path) -> CreateOnlyStore:
    """The state store, empty."""
    return CreateOnlyStore(str(tmp_path / "state"), {})


def kept(store: CreateOnlyStore, asked: RegistryStub, name: str = "main") -> SchemaStore:
    """Return the schemas as another process has them."""
    return SchemaStore(name, store, asked)


@given(batches=st.lists(st.sets(st.integers(0, 9), max_size=5), max_size=6), runs=st.integers(1, 3))
def test_what_was_kept_is_never_asked_again(
    batches: list[set[int]], runs: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each id that exists is asked for once over all batches and runs; then the registry may go for ever."""
    store = CreateOnlyStore(str(tmp_path_factory.mktemp("state")), {})
    asked = RegistryStub(**{f"_{number}": f"text {number}" for number in range(8)})
    exist = dict(asked.schemas or {})
    for _ in range(runs):
        run = kept(store, asked)
        for batch in batches:
            ids = {SchemaId(number) for number in batch}
            assert run.schemas_of(ids) == {each: exist[each] for each in ids & exist.keys()}
    assert all(asked.questions[each] <= 1 for each in exist)
    asked.schemas = None
    seen = {SchemaId(number) for batch in batches for number in batch} & exist.keys()
    assert kept(store, asked).schemas_of(seen) == {each: exist[each] for each in seen}


def test_a_lost_store_is_filled_again_with_the_same(store: CreateOnlyStore, tmp_path: Path) -> None:
    """The digests that a table keeps say whether the registry still has what rows were made with."""
    asked = RegistryStub(_7="seven", _0a0b0c0d_0000_4000_8000_00000000000f="guid")
    first = kept(store, asked).schemas_of([SEVEN, GUID])
    expected = {each: found.digest for each, found in first.items()}
    empty = CreateOnlyStore(str(tmp_path / "other"), {})

    assert kept(empty, asked).schemas_of(expected, expected) == first
    assert kept(empty, asked).kept() == expected

    another = CreateOnlyStore(str(tmp_path / "another"), {})
    asked.schemas = {SEVEN: schema("other")}
    for schema_id, code in ((SEVEN, "registry-changed"), (GUID, "schema-lost")):
        with pytest.raises(ConfigError) as raised:
            kept(another, asked).schemas_of([schema_id], expected)
        assert raised.value.code == code
    assert kept(another, asked).kept() == {}


def test_other_content_under_a_kept_id_is_told_and_changes_nothing(store: CreateOnlyStore) -> None:
    """``check`` and a subject's version find it; what is kept stays as it was; emptied is not changed."""
    asked = RegistryStub(_7="seven", _8="eight")
    first = kept(store, asked).schemas_of([SEVEN, EIGHT])
    assert kept(store, asked).check(kept(store, asked).kept()) == ()
    asked.schemas = {SEVEN: schema("seven")}
    assert kept(store, asked).check(kept(store, asked).kept()) == (EIGHT,)
    asked.schemas = {SEVEN: schema("seven"), EIGHT: schema("other")}
    for ask in (lambda run: run.check(run.kept()), lambda run: run.version("8", None)):
        with pytest.raises(ConfigError, match="schema 8 of the registry main has changed") as raised:
            ask(kept(store, asked))
        assert raised.value.code == "registry-changed"
    assert kept(store, asked).schemas_of([SEVEN, EIGHT]) == first


def test_a_damaged_file_is_named(store: CreateOnlyStore) -> None:
    """Whatever became of it, no value is read by it."""
    asked = RegistryStub(_7="seven", _8="eight")
    kept(store, asked).schemas_of([SEVEN, EIGHT])
    asked.schemas = None
    file = next(file for file in store.list(FOLDER) if "/7-" in file.location)
    path = store.root and file.location.removeprefix("file://")
    whole = store.read(path.removeprefix(f"{store.root}/"))
    assert whole is not None
    for content in ("", "{}", whole[:-1], whole.replace("seven", "eleven"), whole.replace("PROTOBUF", "XML")):
        with open(path, "w") as damaged:  # noqa: PTH123
            damaged.write(content)
        with pytest.raises(CorruptLog, match="the stored schema 7") as raised:
            kept(store, asked).schemas_of([SEVEN])
        assert raised.value.code == "schema-damaged"
        assert path in str(raised.value)
    assert kept(store, asked).schemas_of([EIGHT])


def test_registries_and_stray_files_are_kept_apart(store: CreateOnlyStore) -> None:
    """An id means another schema in another registry, and a file that is none of ours means nothing."""
    one, other = RegistryStub(_7="one"), RegistryStub(_7="other")
    kept(store, one, "one").schemas_of([SEVEN])
    store.create(f"{FOLDER}/one/notes.txt", "by hand")
    store.create(f"{FOLDER}/one/.draft", "")

    assert kept(store, other, "other").schemas_of([SEVEN]) == {SEVEN: schema("other")}
    assert kept(store, one, "one").schemas_of([SEVEN]) == {SEVEN: schema("one")}
    assert kept(store, one, "one").version("7", 1) == (SEVEN, schema("one"))
