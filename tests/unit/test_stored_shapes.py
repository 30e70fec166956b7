"""What stands in transaction logs and table properties since the first version, letter by letter."""

from __future__ import annotations

import json
from dataclasses import replace

from spark_jobs.protocol.batch import Balance, Pause, WrittenFile
from spark_jobs.protocol.cdc import Cdc, Position
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges, SchemaKey, SchemaSpan
from spark_jobs.protocol.progress import (
    CommitRecord,
    LastDrain,
    PendingDeadLetters,
    Progress,
    progress_from_properties,
)
from spark_jobs.protocol.progress_parts import KeptColumn, SavedDeadLetters, ShapedSpan, Skip
from spark_jobs.txlog.entries import ParquetWritten, entry_to_json, fold
from tests.support.log_entries import make_batch

FILE = (
    '{"path":"s3://b/t/data/day=1/a-0.parquet","spec_id":1,"partition":["AQAAAA==",null],"rows":3,"bytes":900,'
    '"split_offsets":[4],"column_sizes":{"1":40},"value_counts":{"1":3},"null_value_counts":{"1":0},'
    '"nan_value_counts":{},"lower_bounds":{"1":"AQ=="},"upper_bounds":{"1":"Aw=="}}'
)
WRITTEN_FILE = WrittenFile(
    path="s3://b/t/data/day=1/a-0.parquet",
    spec_id=1,
    partition=("AQAAAA==", None),
    rows=3,
    bytes=900,
    split_offsets=(4,),
    column_sizes={1: 40},
    value_counts={1: 3},
    null_value_counts={1: 0},
    nan_value_counts={},
    lower_bounds={1: "AQ=="},
    upper_bounds={1: "Aw=="},
)
LOG_OBJECT = (
    '{"format":1,"phase":"ParquetWritten","table_uuid":"table","batch":{"pipeline":"t","table":"demo.t",'
    '"topic":"t","generation":0,"ranges":[[0,0,4]],"attempt":"attempt-a","ingested_at_us":1000,"kind":"drain",'
    '"epoch":0,"cluster_id":null,"topic_id":null,"leader_epochs":{},"read_by":[],"shaped_by":"","letters":null},'
    '"entry":{"data_files":['
    + FILE
    + '],"dead_letter_files":[],"rows":3,"bytes_read":100,"file_bytes":900,"balances":{"0":{"rows":3,'
    '"dead_letters":1,"tombstones":0,"gaps":0}},"summary":{"sluice.actor":"ada"},"routed_files":{}}}'
)


def test_a_log_object_is_written_and_read_as_ever() -> None:
    """Versions that run beside each other adopt each other's batches."""
    batch = make_batch(end=4)
    entry = ParquetWritten(
        (WRITTEN_FILE,), (), 3, 100, 900, {0: Balance(rows=3, dead_letters=1)}, {"sluice.actor": "ada"}
    )
    assert entry_to_json(entry, batch, "table") == LOG_OBJECT
    attempt = fold("table", batch.attempt, {"4-ParquetWritten.json": LOG_OBJECT})
    assert (attempt.batch, attempt.entries) == (batch, (entry,))
    before = LOG_OBJECT.replace(',"read_by":[]', "").replace(',"routed_files":{}', "")
    earlier = fold("table", batch.attempt, {"4-ParquetWritten.json": before})
    assert (earlier.batch, earlier.entries) == (batch, (entry,))
    by_version = replace(batch, read_by=(SchemaKey.parse("7"), SchemaKey.parse("key/9")))
    assert '"read_by":["7","key/9"]' in entry_to_json(entry, by_version, "table")


def test_fields_that_a_newer_version_adds_are_passed_over() -> None:
    """In the object, its batch, its entry and its files."""
    value = json.loads(LOG_OBJECT)
    for place in (value, value["batch"], value["entry"], value["entry"]["data_files"][0]):
        place["added_later"] = {"by": "somebody"}
    attempt = fold("table", "attempt-a", {"4-ParquetWritten.json": json.dumps(value)})
    written = attempt.entry(ParquetWritten)
    assert written is not None
    assert written.data_files == (WRITTEN_FILE,)


def test_owed_dead_letters_are_written_and_read_as_ever() -> None:
    """The property holds the same JSON, keys in order of their names; fields added later are passed over."""
    owed = PendingDeadLetters("a", OffsetRanges.between({0: 0}, {0: 1}), (WRITTEN_FILE,))
    properties = Progress("t", 0, {0: 1}, pending_dead_letters=owed).to_properties()
    value = {
        "attempt": "a",
        "starts": {"0": 0},
        "ends": {"0": 1},
        "files": [json.loads(FILE)],
        "replaces": False,
        "redriven": None,
        "returned": [],
    }
    name = "sluice.pending-dead-letters"
    assert properties[name] == json.dumps(value, separators=(",", ":"), sort_keys=True)
    for later in ("replaces", "redriven", "returned"):
        del value[later]
    value["added_later"] = 1
    read = progress_from_properties({**properties, name: json.dumps(value)}, table="a.b")
    assert read.pending_dead_letters == owed


def test_a_tables_progress_is_written_and_read_as_ever() -> None:
    """Every property, and those of a new table; what the first version did not write may be missing."""
    ranges = OffsetRanges.between({2: 5, 10: 0}, {2: 9, 10: 4})
    progress = Progress(
        "t",
        1,
        {10: 4, 2: 9},
        cluster_id="c",
        topic_id="i",
        earlier={0: {0: 3}},
        last_commits=(CommitRecord("a", ranges), CommitRecord("b", NO_RANGES)),
        anchor=7,
        starts={2: 0, 10: 0},
        last_drain=LastDrain("a", 1, 2, 3, None),
        replay_epoch=4,
        paused=Pause("why: ä", "ada", 5),
        compacted_files=6,
        skipped=(Skip(1, 2, 3, 4, "bad"),),
        rollbacks=8,
        leader_epochs={10: (4, 1), 2: (9, 3)},
        last_drain_offsets=CommitRecord("a", ranges),
        kept_columns=(KeptColumn("id", "_id_was_double", 1, {2: 9}, {2: 5}),),
        schemas={SchemaKey.parse("7"): "ab", SchemaKey.parse("key/12:0.1"): "cd"},
        columns={"3.1": {"int": (4, 7), "string": (9,)}, "key/": {"struct": (2,)}},
        schema_spans=(SchemaSpan(SchemaKey.parse("7"), {2: 0, 10: 3}),),
        shaped_by=(ShapedSpan("ab", {2: 0}), ShapedSpan("leaves-out:cd", {2: 5, 10: 3})),
    )
    first = {
        "sluice.format-version": "2",
        "sluice.offsets": '{"t":{"0":{"0":3},"1":{"2":9,"10":4}}}',
        "sluice.cluster-id": "c",
        "sluice.topic-id": "i",
        "sluice.anchor": "7",
        "sluice.last-commits": '[["a",{"2":5,"10":0},{"2":9,"10":4}],["b",{},{}]]',
        "sluice.pending-dead-letters": "null",
    }
    later = {
        "sluice.starts": '{"2":0,"10":0}',
        "sluice.last-drain": '{"attempt":"a","bytes_read":3,"committed_at_ms":1,"records":2,'
        '"valid_through_ms":null}',
        "sluice.replay-epoch": "4",
        "sluice.paused": '{"actor":"ada","at_ms":5,"reason":"why: \\u00e4"}',
        "sluice.compacted-files": "6",
        "sluice.skipped": '[[1,2,3,4,"bad"]]',
        "sluice.rollbacks": "8",
        "sluice.leader-epochs": '{"2":[9,3],"10":[4,1]}',
        "sluice.last-drain-offsets": '["a",{"2":5,"10":0},{"2":9,"10":4}]',
        "sluice.kept-columns": '[{"column":"id","generation":1,"is_done":false,"kept":"_id_was_double",'
        '"next_offsets":{"2":5},"until":{"2":9}}]',
        "sluice.schemas": '{"7":"ab","key/12:0.1":"cd"}',
        "sluice.columns": '{"3.1":{"int":[4,7],"string":[9]},"key/":{"struct":[2]}}',
        "sluice.schema-spans": '[["7",{"2":0,"10":3}]]',
        "sluice.shaped-by": '[["ab",{"2":0}],["leaves-out:cd",{"2":5,"10":3}]]',
        "sluice.redrives": "0",
    }
    assert progress.to_properties() == first | later
    assert progress_from_properties(first | later, table="a.b") == progress
    assert Progress("t", 0, {0: 1}).to_properties() == {
        "sluice.format-version": "1",
        "sluice.offsets": '{"t":{"0":{"0":1}}}',
        "sluice.last-commits": "[]",
        "sluice.starts": "{}",
        "sluice.skipped": "[]",
        "sluice.kept-columns": "[]",
        "sluice.leader-epochs": "{}",
        "sluice.schemas": "{}",
        "sluice.columns": "{}",
        "sluice.schema-spans": "[]",
        "sluice.shaped-by": "[]",
        **dict.fromkeys(
            (
                "sluice.pending-dead-letters",
                "sluice.last-drain",
                "sluice.last-drain-offsets",
                "sluice.paused",
            ),
            "null",
        ),
        **dict.fromkeys(
            ("sluice.replay-epoch", "sluice.compacted-files", "sluice.rollbacks", "sluice.redrives"), "0"
        ),
    }
    routing = Progress("t", 0, {0: 1}, routes=("a.b",)).with_pending_routes(
        "a", ranges, {"a.b": (WRITTEN_FILE,)}
    )
    assert routing.to_properties() == Progress("t", 0, {0: 1}).to_properties() | {
        "sluice.format-version": "3",
        "sluice.routes": '["a.b"]',
        "sluice.owed-routes": '{"attempt":"a","ends":{"2":9,"10":4},"files":{"a.b":['
        + json.dumps(json.loads(FILE), separators=(",", ":"), sort_keys=True)
        + ']},"replaces":false,"starts":{"2":5,"10":0}}',
    }
    cdc = Cdc(("id",), {0: Position(7, 9, identity=1)}, 5, restarts=({0: 4},))
    mirrored = replace(routing, routes=(), owed_routes=None, cdc=cdc)
    assert mirrored.to_properties() == Progress("t", 0, {0: 1}).to_properties() | {
        "sluice.format-version": "4",
        "sluice.cdc": '{"began":{},"key":["id"],'
        '"positions":{"0":{"commit":7,"identity":1,"sequence":9}},'
        '"restarts":[{"0":4}],"truncated_below":5,"truncated_in":0}',
    }
    assert progress_from_properties(mirrored.to_properties(), table="a.b") == mirrored
    earlier = '{"key":["id"],"positions":{"0":{"commit":7,"sequence":9,"time_us":3}},"truncated_below":5}'
    before = progress_from_properties(mirrored.to_properties() | {"sluice.cdc": earlier}, table="a.b")
    assert before.cdc == Cdc(("id",), {0: Position(7, 9)}, 5)
    of_source = replace(mirrored, cdc=replace(cdc, source='{"db":"shop"}'))
    assert of_source.to_properties() == mirrored.to_properties() | {
        "sluice.format-version": "5",
        "sluice.cdc": r'{"began":{},"key":["id"],"restarts":[{"0":4}],"sources":{"{\"db\":\"shop\"}":'
        '{"positions":{"0":{"commit":7,"identity":1,"sequence":9}},"truncated_below":5,"truncated_in":0}}}',
    }
    assert progress_from_properties(of_source.to_properties(), table="a.b") == of_source
    by_place = Progress("t", 0, {0: 1}, schema_spans=progress.schema_spans)
    assert by_place.to_properties()["sluice.format-version"] == "2"
    redriven = replace(
        by_place,
        redrives=1,
        pending_dead_letters=PendingDeadLetters(
            "a", NO_RANGES, (), redriven=SavedDeadLetters("k", 2), returned=(SavedDeadLetters("r", 1),)
        ),
    )
    assert redriven.to_properties()["sluice.format-version"] == "3"
    assert progress_from_properties(redriven.to_properties(), table="a.b") == redriven
    earlier = progress_from_properties(first, table="a.b")
    assert earlier == replace(
        Progress("t", 1, {10: 4, 2: 9}),
        **{
            name: getattr(progress, name)
            for name in ("cluster_id", "topic_id", "earlier", "last_commits", "anchor")
        },
    )
