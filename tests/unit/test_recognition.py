"""What a topic's first records show, and that the lines proposed for it, pasted, make rows of all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.commands.config_template import proposals, render_config
from prove.lab.debezium_events import Column, Source
from spark_jobs.config.file import parse_document
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.preview.prospects import Prospect, prospect
from spark_jobs.preview.recognition import Sample, Use, recognize
from spark_jobs.preview.sample import read_as
from spark_jobs.protocol.work import layout_named
from spark_jobs.schema.inference import choose_types
from tests.support.shaped import NOON_MS, Shaped, column, letters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.records.row_maker import ChunkRows

SOURCE = Source({"id": Column("int32", optional=False), "name": Column("string")})
EVENT = SOURCE.event("c", {"id": 1, "name": "a"})
CONNECT = SOURCE.row({"id": 1, "name": "a"})


def seen(
    values: Sequence[Any], keys: Sequence[bytes | None] | None = None, *, is_compacted: bool = False
) -> Prospect:
    """Return what these values, JSON unless they are bytes, and keys look like."""
    return prospect([records(values, keys)], "orders", None, is_compacted=is_compacted)


def records(values: Sequence[Any], keys: Sequence[bytes | None] | None = None) -> Chunk:
    """Return records of these values."""
    raw = [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in values]
    count = len(raw)
    keys = [b"k%d" % number for number in range(count)] if keys is None else keys
    return Chunk(0, [*range(count)], [NOON_MS] * count, [*keys], raw, [None] * count)


def pasted(found: Prospect, group: int = 0) -> dict[str, Any]:
    """Return what the lines of a group of proposals say."""
    groups = [*proposals(found.found)]
    said: dict[str, Any] = yaml.safe_load("\n".join(groups[group][1]))
    return said


def made(settings: dict[str, Any], values: Sequence[Any]) -> ChunkRows:
    """Return what a drain of these values makes with the settings, which an audit finds right."""
    pipeline = PipelineConfig.model_validate(
        {"name": "orders", "topic": "orders", "table": "lake.orders", **settings}
    )
    chunk = records(values)
    evidence, _ = read_as(settings, [chunk], None)
    known = RecordSchemas(
        pipeline.value,
        pipeline.record_key,
        topic="orders",
        layout=layout_named("flat"),
        registry=lambda _: None,
        folder=Path(),
    ).known()
    return Shaped(pipeline, known, evidence).make(*chunk.values)


def test_numbers_that_are_times_are_read_as_such() -> None:
    """By their name or by when Kafka took them; ids, prices and what is no time at all are not."""
    found = seen([{"ts": 1_700_000_000_123, "seen": NOON_MS // 1000, "id": 1_234_567_890, "n": 5}])
    said = pasted(found)["columns"]
    assert said == {
        "ts": {"type": "timestamptz", "from": "epoch_ms"},
        "seen": {"type": "timestamptz", "from": "epoch_s"},
    }
    assert "ts: 1700000000123 as epoch_ms is 2023-11-14T22:13:20Z" in [
        each.description for each in found.found
    ]
    rows = made({"columns": said}, [{"ts": 1_700_000_000_123, "seen": NOON_MS // 1000}])
    assert str(column(rows, "ts")[0]) == "2023-11-14 22:13:20.123000+00:00"
    assert not pasted(seen([{"created_at": 12}, {"created_at": 1_700_000_000}])).get("columns")


def test_a_field_of_several_kinds_is_kept_as_json() -> None:
    """Every record becomes a row; one odd value among many is left to be a dead letter."""
    values = [{"a": 1}, {"a": "x"}, {"a": {"b": [1]}}, {"a": None}]
    said = pasted(seen(values))
    assert said["columns"] == {"a": {"type": "string", "from": "json"}}
    rows = made({"columns": said["columns"]}, values)
    assert column(rows, "a") == ["1", '"x"', '{"b":[1]}', None]
    assert "columns" not in pasted(seen([{"a": 1}] * 99 + [{"a": "x"}]))


def test_names_that_differ_only_in_case_are_one_column() -> None:
    """Records of either spelling become rows of it; without the lines those of the rarer one are letters."""
    values = [{"order_id": 1, "at": "x"}, {"order_id": 2}, {"Order_ID": 3, "at": "y"}]
    ((_, _, field, why),) = letters(made({}, values))
    assert (field, why) == ("Order_ID", "Order_ID differs only in case from column order_id")
    found = seen(values)
    assert "order_id and Order_ID differ only in case" in [each.description for each in found.found]
    said = {name: each for name, each in pasted(found).items() if name != "partition_by"}
    rows = made(said, values)
    assert (column(rows, "order_id"), column(rows, "at")) == ([1, 2, 3], ["x", None, "y"])


@pytest.mark.parametrize("settings", [{"from": "json"}, {"sql": "'a'"}])
def test_a_letter_says_so_of_a_column_that_no_field_fills_as_it_is(settings: dict[str, str]) -> None:
    """A name that is left to an expression is taken, too."""
    columns = {"order_id": {"type": "string", **settings}}
    ((*_, why),) = letters(made({"columns": columns}, [{"Order_ID": "a"}]))
    assert why == "Order_ID differs only in case from column order_id"


def test_documents_with_nan_are_read_as_text() -> None:
    """Their numbers are numbers, NaN too; where few have it they are a table that one may have instead."""
    bad = b'{"id": 7, "x": NaN, "o": {"a": [1]}, "it\'s": true, "q\\"": "\xc3\xa9"}'
    found = seen([bad, bad, {"id": 8, "x": 1.5}])
    assert not found.unreadable
    said = pasted(found)
    rows = made(said, [bad, {"id": 8, "x": 1.5}])
    assert [str(each) for each in column(rows, "x")] == ["nan", "1.5"]
    assert column(rows, "id") == [7, 8]
    assert (column(rows, "o")[0], column(rows, "it's")[0], column(rows, 'q"')[0]) == ('{"a":[1]}', True, "é")
    few = seen([bad, *[{"id": 8, "x": 1.5}] * 9])
    assert [each.use for each in few.found if "NaN" in each.description] == [Use.INSTEAD]
    assert pasted(few, 1) == said


def test_of_documents_with_nan_either_spelling_is_read() -> None:
    """As text they have no column for each, so that one expression takes both."""
    bad = b'{"ID": 9, "x": NaN}'
    values = [*[{"id": 8, "x": 1.5}] * 9, bad]
    ((_, lines),) = [each for each in proposals(seen(values).found) if "NaN" in "".join(each[0])]
    assert column(made(yaml.safe_load("\n".join(lines)), values), "id") == [8] * 9 + [9]


def test_a_compacted_topic_is_offered_as_a_table() -> None:
    """Beside what a flat table of it is to have; of one that is not compacted, or without keys, it is not."""
    found = seen([{"id": 1}, None], is_compacted=True)
    assert pasted(found, 1) == {"layout": "mirror", "cdc": {"envelope": "upsert"}}
    assert "layout" not in pasted(found)
    for other in (seen([{"id": 1}]), seen([{"id": 1}], [None], is_compacted=True)):
        assert [each.use for each in other.found] == [Use.BESIDE]


def test_rows_of_connect_are_read_by_their_schemas() -> None:
    """Not as columns `schema` and `payload`; of a compacted topic the table is a mirror."""
    found = seen([CONNECT, CONNECT])
    assert pasted(found) == {"layout": "changes", "cdc": {"envelope": "upsert"}}
    assert found.columns[:2] == ("id", "name")
    assert pasted(seen([CONNECT], is_compacted=True))["layout"] == "mirror"


def test_one_odd_record_makes_no_flat_table_of_events() -> None:
    """It would be a dead letter, which is said; where most are no events the table is flat."""
    found = seen([*[EVENT] * 99, b"odd"])
    assert (found.unreadable, pasted(found)) == ("", {"layout": "changes"})
    assert found.found[0].description.endswith(
        "99 of 100 values are Debezium events; all others become dead letters"
    )
    assert not seen([EVENT, {"id": 1}, {"id": 2}]).are_changes


def test_keys_that_are_no_text_are_kept_as_bytes() -> None:
    """Else their records would be dead letters."""
    found = seen([{"id": 1}] * 3, [b"\xff\x01", b"\0\0\0\7", None])
    assert pasted(found)["key"] == {"format": "raw"}
    assert not any(each.use is Use.KEYS for each in seen([{"id": 1}]).found)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            [b"id;name", b"1;Gr\xf6sse", b"2;b"],
            {"delimiter": ";", "columns": ["id", "name"], "header": True, "encoding": "latin-1"},
        ),
        ([b"1,a\n", b'2,"b,c"\n'], {"delimiter": ",", "columns": ["field_1", "field_2"]}),
        ([b"1\ta", b"2\tb"], {"delimiter": "\t", "columns": ["field_1", "field_2"]}),
        (
            [b"id;name;price", *[b"1;a;0,50", b"2;b;1,00"] * 99],
            {"delimiter": ";", "columns": ["id", "name", "price"], "header": True},
        ),
        ([b"1;a;0,50", b"2;b;1,00"], {"delimiter": ";", "columns": ["field_1", "field_2", "field_3"]}),
    ],
)
def test_lines_of_csv_are_told_with_their_names(values: list[bytes], said: dict[str, Any]) -> None:
    """By the one character that all have alike; read so, they are rows."""
    found = seen(values)
    assert (pasted(found), found.unreadable) == ({"value": {"format": "csv", **said}}, "")
    assert not letters(made(pasted(found), values))


@pytest.mark.parametrize(
    "values",
    [
        [b"hello, world", b"good bye"],
        [b"a,b"],
        [b"[1,2]", b"[3,4]"],
        [b'<a b="1,2">'] * 2,
        [b"\0\1,2"] * 2,
        [b"", b""],
    ],
)
def test_other_texts_are_no_csv(values: list[bytes]) -> None:
    """They are told to be what they are."""
    assert not any("value" in each.settings for each in seen(values).found)


CONNECTOR = {"properties": {"name": "a"}}


@pytest.mark.parametrize(
    ("values", "keys", "topic", "why"),
    [
        ([CONNECTOR, {"state": "STARTED"}], [b"connector-a", b"target-state-a"], "x", "Kafka Connect"),
        ([{"lsn": 1}, None], [b'["a",{"server":"s"}]'] * 2, "x", "Kafka Connect"),
        ([{"state": "RUNNING", "worker_id": "w"}], [b"status-connector-a"], "x", "Kafka Connect"),
        ([], [], "dc1-connect-offsets", "Kafka Connect"),
        ([{"source": {"a": 1}, "ts_ms": 1, "ddl": "CREATE"}], [None], "history", "not changes"),
        ([{"ts_ms": 1}], [None], "beats", "not changes"),
        ([{"id": 1}], [b"task-7"], "connect-status", ""),
        ([{"state": "done"}], [b"7"], "tasks", ""),
        ([], [], "orders", ""),
    ],
)
def test_topics_of_connect_itself_are_left_out(
    values: list[Any], keys: list[bytes | None], topic: str, why: str
) -> None:
    """By their records; by the name where there is none yet."""
    unreadable = prospect([records(values, keys)], topic, None).unreadable
    assert why in unreadable
    assert bool(why) == bool(unreadable)


def test_what_the_pipeline_says_is_not_proposed_again() -> None:
    """Nor what cannot be said of it: a mirror is partitioned by nothing."""
    values = [{"ts": NOON_MS, "a": 1, "b": "2"}, {"ts": NOON_MS, "a": "x", "b": "2"}]
    chunk = records(values)
    evidence, _ = read_as({}, [chunk], None)
    sample = Sample([chunk], evidence, choose_types(evidence), is_compacted=True)
    said: dict[str, Any] = {
        "columns": {"ts": {"type": "timestamptz", "from": "epoch_ms"}, "a": "long"},
        "partition_by": ["day(ts)"],
    }
    assert [each.settings for each in recognize(sample, of(said))] == [
        {"layout": "mirror", "cdc": {"envelope": "upsert"}}
    ]
    mirror = recognize(sample, of({"layout": "mirror", "cdc": {"envelope": "upsert"}}))
    assert [[*each.settings] for each in mirror] == [["columns"], ["columns"]]
    assert not recognize(sample, of({"layout": "archive"}))


def test_another_table_is_proposed_whole() -> None:
    """Its columns are of its own reading: those that the pipeline says are not."""
    chunk = records([*[{"id": 8}] * 9, b'{"id": NaN}'])
    evidence, _ = read_as({}, [chunk], None)
    said = of({"columns": {"id": {"type": "double", "jmespath": "id"}}, "partition_by": ["day(at)"]})
    (other,) = recognize(Sample([chunk], evidence, choose_types(evidence)), said)
    assert (other.settings["value"], [*other.settings["columns"]]) == ({"format": "string"}, ["id"])
    ((told, _),) = proposals([other])
    assert told[0].endswith("as text")


def of(settings: dict[str, Any]) -> PipelineConfig:
    """Return the pipeline with these settings."""
    return PipelineConfig.model_validate(
        {"name": "orders", "topic": "orders", "table": "lake.orders", **settings}
    )


def test_proposals_stand_in_the_file_of_init() -> None:
    """What the records are is written, the rest commented out, each with why."""
    values = [{"ts": NOON_MS, "a": 1}]
    found = seen(values, [b"\xff"], is_compacted=True)
    text = render_config(bootstrap_servers="a:9092", topics=("orders",), seen={"orders": found})
    for line in (
        "    # 1 of 1 key are not text: 0xff.",
        "    key: {format: raw}",
        "    # Proposed from its first 1 record; easier before the first batch:",
        "#     columns:",
        "#       ts: {type: timestamptz, from: epoch_ms}",
        "#     layout: mirror",
        "#     cdc: {envelope: upsert}",
    ):
        assert text.splitlines().count(line) == 1


@pytest.mark.parametrize("name", ["null", "no", "FALSE", "On"])
def test_a_field_called_as_yaml_has_a_word_is_told_by_its_name(name: str) -> None:
    """What is proposed for it is a column of that name."""
    assert pasted(seen([{name: NOON_MS}]))["columns"].keys() == {name}


VALUES = st.binary(max_size=30) | st.dictionaries(st.text(), st.integers() | st.text() | st.floats())


@settings(max_examples=30)
@given(st.lists(VALUES, max_size=3))
def test_no_record_stops_what_looks_at_it(values: list[Any]) -> None:
    """Whatever values are, what is proposed for them can be written and read again."""
    found = seen(values, is_compacted=True)
    text = render_config(bootstrap_servers="a:9092", topics=("orders",), seen={"orders": found})
    document, problems = parse_document("sluice.yaml", text)
    assert document is not None
    assert not problems
    for _, lines in proposals(found.found):
        of(yaml.safe_load("\n".join(lines)))
