"""Rows of `layout: changes`: each event is one, of its types, or a bad value that says why."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prove.lab.debezium_events import DATA, TIME, Column, Source, base64_of, decimal
from spark_jobs.config.columns import ColumnSettings, NewFields
from spark_jobs.config.sections import Envelope, SchemaSettings
from spark_jobs.formats.connect.schema import RowSchema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.records.decoder import Phase, shaping_of
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.evidence import MOST_SCHEMAS, Evidence, FirstAndLast
from spark_jobs.schema.iceberg_types import CHANGE_NAMES, declared_fields
from spark_jobs.schema.writer_schema import UnreadableValueError
from tests.support.change_rows import Table, chunk_of

ID = Column("int32", optional=False)
SCALE, VALUE = (
    Column("int32", optional=False).schema("scale"),
    Column("bytes", optional=False).schema("value"),
)
TYPED = Source(
    {
        "id": ID,
        "amount": decimal(12, 2),
        "exact": Column("struct", f"{DATA}VariableScaleDecimal", {"fields": [SCALE, VALUE]}),
        "wide": decimal(60, 4),
        "coarse": decimal(5, -2),
        "day": Column("int32", f"{TIME}Date"),
        "at": Column("int64", f"{TIME}MicroTimestamp"),
        "at_ms": Column("int64", f"{TIME}Timestamp"),
        "zoned": Column("string", f"{TIME}ZonedTimestamp"),
        "clock": Column("int64", f"{TIME}MicroTime"),
        "nanos": Column("int64", f"{TIME}NanoTimestamp"),
        "uid": Column("string", f"{DATA}Uuid"),
        "doc": Column("string", f"{DATA}Json"),
        "bits": Column("bytes", f"{DATA}Bits"),
        "days": Column("array", None, {"items": Column("int32", f"{TIME}Date").schema("")}),
        "ratio": Column("double"),
        "real": Column("float"),
    }
)
ROW = {
    "id": 1,
    "amount": base64_of(-12345),
    "exact": {"scale": 3, "value": base64_of(1500)},
    "wide": base64_of(10**40 + 1),
    "coarse": base64_of(123),
    "day": 19_000,
    "at": 1_700_000_000_123_456,
    "at_ms": -1,
    "zoned": "2024-02-29T12:00:00.123456Z",
    "clock": 86_399_999_999,
    "nanos": 1_700_000_000_123_456_789,
    "uid": "0b4f6d4e-7b1a-4b0e-9d8b-0a1b2c3d4e5f",
    "doc": '{"a": 1}',
    "bits": "BQ==",
    "days": [0, None, 19_000],
    "ratio": 0.1,
    "real": 1.1,
}


def own(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a row says of the source's row."""
    return {name: item for name, item in row.items() if name[0] != "_"}


@pytest.mark.parametrize("copies", [1, 40])
def test_types_are_the_sources(copies: int) -> None:
    """One by one and many at once."""
    decoded = Table().drain([(TYPED.key(1), TYPED.event("c", ROW))] * copies)
    assert not decoded.bad
    row = decoded.table.to_pylist()[-1]
    assert own(row) == {
        "id": 1,
        "amount": Decimal("-123.45"),
        "exact": "1.500",
        "wide": "1000000000000000000000000000000000000.0001",
        "coarse": "12300",
        "day": date(2022, 1, 8),
        "at": datetime.fromisoformat("2023-11-14T22:13:20.123456"),
        "at_ms": datetime.fromisoformat("1969-12-31T23:59:59.999000"),
        "zoned": datetime(2024, 2, 29, 12, 0, 0, 123456, UTC),
        "clock": time(23, 59, 59, 999999),
        "nanos": 1_700_000_000_123_456_789,
        "uid": row["uid"],
        "doc": '{"a": 1}',
        "bits": b"\x05",
        "days": [date(1970, 1, 1), None, date(2022, 1, 8)],
        "ratio": 0.1,
        "real": pa.scalar(1.1, pa.float32()).as_py(),
    }
    assert str(row["uid"]) == ROW["uid"]
    assert {name: row[name] for name in CHANGE_NAMES} == {
        "_cdc_sequence": 100,
        "_cdc_timestamp": datetime(2023, 11, 14, 22, 13, 20, 123000, UTC),
        "_cdc_operation": "c",
        "_cdc_row_id": '{"id":1}',
        "_cdc_transaction": "7",
    }


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("day", 2_147_483_647),
        ("day", -719_163),
        ("at", -9_223_372_036_853_775_810),
        ("at", 9_223_372_036_825_200_000),
        ("at_ms", 9_223_372_036_825_200),
        ("at_ms", -62_135_596_800_001),
        ("zoned", "infinity"),
        ("zoned", "0044-03-15T00:00:00Z BC"),
        ("zoned", "2024-02-29T12:00:00.1234567Z"),
        ("zoned", "2024-02-29T12:00:00"),
        ("zoned", "2024-02-29112:00Z"),
        ("clock", 86_400_000_000),
        ("amount", base64_of(10**12)),
        ("amount", "12.50"),
        ("uid", "no uuid"),
        ("uid", f"{{{ROW['uid']}}}"),
        ("id", None),
        ("id", 1.5),
        ("days", [2_147_483_647]),
    ],
)
@pytest.mark.parametrize("copies", [1, 40])
def test_what_iceberg_cannot_hold_is_named(column: str, value: Any, copies: int) -> None:
    """The column and the value; all others are rows."""
    good, bad = ((TYPED.key(1), TYPED.event("u", row)) for row in (ROW, {**ROW, column: value}))
    decoded = Table().drain([good, bad] * copies)
    assert decoded.table.num_rows == copies
    assert {each.index for each in decoded.bad} == {*range(1, 2 * copies, 2)}
    told = decoded.bad[0]
    assert (told.field or "").split(".")[0] == column
    shown = value[0] if isinstance(value, list) else value
    assert ("null" if shown is None else str(shown)) in told.error


@pytest.mark.parametrize(
    ("scale", "zeros"),
    [(2_000_000_000, 1), (-2_000_000_000, 1), (0, 100_000), (16_383, 5_000)],
)
@pytest.mark.parametrize("copies", [1, 40])
def test_a_number_is_told_with_all_its_digits_or_refused(scale: int, zeros: int, copies: int) -> None:
    """A scale that no source has takes neither the drain nor its memory."""
    row = {**ROW, "exact": {"scale": scale, "value": base64_of(10**zeros)}}
    decoded = Table().drain([(TYPED.key(1), TYPED.event("c", row))] * copies)
    if scale != 16_383:
        assert {(each.field, "100,000 digits" in each.error) for each in decoded.bad} == {("exact", True)}
        return
    assert {len(each) for each in decoded.table["exact"].to_pylist()} == {16_385}


def test_a_number_that_is_none_is_a_row_where_it_has_a_form() -> None:
    """In columns of floating point."""
    rows = [{**ROW, "ratio": each, "real": each} for each in ("NaN", "Infinity", "-Infinity")]
    decoded = Table().drain([(TYPED.key(1), TYPED.event("u", row)) for row in rows])
    assert [str(each) for each in decoded.table.column("ratio").to_pylist()] == ["nan", "inf", "-inf"]
    assert decoded.table.column("real").to_pylist()[1:] == [float("inf"), float("-inf")]


PLAIN = Source()


@pytest.mark.parametrize("source", [Source({"id": ID, "name": Column("string", optional=False)}), PLAIN])
def test_each_event_is_a_row(source: Source) -> None:
    """Of a delete the key alone, whatever its old row says; of a truncate nothing."""
    records = [
        (source.key(1), source.event("r", {"id": 1, "name": "a"}, lsn=3, sequence='[null,"3"]')),
        (source.key(1), source.event("u", {"id": 1, "name": "b"}, lsn=9, before={"id": 1, "name": ""})),
        (source.key(1), source.event("d", None, before={"id": 1, "name": ""})),
        (None, source.event("t", None)),
        (
            source.key(2),
            source.event("r", {"id": 2, "name": "c"}, sequence='["8","77"]').replace(
                b'"lsn":100', b'"lsn":null'
            ),
        ),
        (None, source.event("d", None, before={"id": 4, "name": "no key"})),
    ]
    decoded = Table().drain(records)
    assert not decoded.bad
    rows = decoded.table.to_pylist()
    assert [(row["id"], row["name"]) for row in rows] == [
        (1, "a"), (1, "b"), (1, None), (None, None), (2, "c"), (4, "no key"),
    ]  # fmt: skip
    assert [row["_cdc_operation"] for row in rows] == ["r", "u", "d", "t", "r", "d"]
    assert [row["_cdc_sequence"] for row in rows] == [3, 9, 100, 100, 77, 100]
    ids = ['{"id":1}', '{"id":1}', '{"id":1}', None, '{"id":2}', None]
    assert [row["_cdc_row_id"] for row in rows] == ids


def test_a_schema_that_changes_goes_the_way_of_all_schemas() -> None:
    """Added, widened, of another kind, gone: by the column map, in one chunk with the old one."""
    first = Source({"id": ID, "qty": Column("int32"), "gone": Column("string")})
    second = Source(
        {"id": Column("int64", optional=False), "qty": Column("string"), "note": Column("string")}
    )
    table = Table()
    table.drain([(first.key(1), first.event("c", {"id": 1, "qty": 5, "gone": "x"}))])
    old = (first.key(2), first.event("c", {"id": 2, "qty": 6, "gone": "y"}))
    new = (second.key(3), second.event("c", {"id": 1 << 40, "qty": "many", "note": "n"}))
    rows = table.drain([old, new, old]).table.to_pylist()
    none = dict.fromkeys(("id", "qty", "gone", "qty_2", "note"))
    before = {**none, "id": 2, "qty": 6, "gone": "y"}
    assert [own(row) for row in rows] == [
        before,
        {**none, "id": 1 << 40, "qty_2": "many", "note": "n"},
        before,
    ]


def test_schemas_are_in_the_order_in_which_they_came_up() -> None:
    """Whichever task saw them; of more than a table can want the first stay."""
    seen = [Evidence(texts={str(number % 300): FirstAndLast((0, number))}) for number in range(600)]
    for order in (seen, seen[::-1]):
        evidence = reduce(Evidence.merge, order).within(1)
        assert evidence.texts_in_order == [*map(str, range(MOST_SCHEMAS))]
        assert Evidence.from_json(evidence.to_json()) == evidence


def test_a_column_that_is_wider_alone_is_widened() -> None:
    """Before the first value that needs it becomes a dead letter."""
    table = Table()
    for kind, number in (("int32", 5), ("int64", 1 << 40)):
        source = Source({"id": ID, "qty": Column(kind)})
        (row,) = table.drain([(source.key(1), source.event("u", {"id": 1, "qty": number}))]).table.to_pylist()
        assert row["qty"] == number


def test_a_table_that_is_reshaped_has_its_declared_columns_alone() -> None:
    """Beside the events' own; and no expression reads the event's document, which is no row."""
    columns = {"twice": ColumnSettings(type="long", sql="id * 2"), "id": ColumnSettings(type="int")}
    table = Table(columns=columns, table_schema=SchemaSettings(new_fields=NewFields.IGNORE))
    of_now = table.format()
    lacks, _ = of_now.columns.first(
        of_now.decoder.observe(chunk_of([(TYPED.key(1), TYPED.event("c", ROW))])),
        declared_fields(table.pipeline.declared),
    )
    assert {path[0] for path, _, _ in lacks.additions} == {"twice", "id", *CHANGE_NAMES}
    assert not shaping_of(table.pipeline).is_text("note")


def test_an_envelope_may_say_its_schema_last_or_that_it_has_none() -> None:
    """And the microsecond at which the source changed the row."""
    event = json.loads(TYPED.event("c", ROW, ts_us=1_700_000_000_123_456))
    last = json.dumps({"payload": event["payload"], "schema": event["schema"]}).encode()
    none = json.dumps({"schema": None, "payload": event["payload"]}).encode()
    one, other = Table().drain([(None, last), (None, last)]).table.to_pylist()
    assert repr(one) == repr(other)
    assert (one["amount"], one["_cdc_timestamp"].microsecond) == (Decimal("-123.45"), 123_456)
    (row,) = Table().drain([(None, none)]).table.to_pylist()
    assert row["amount"] == ROW["amount"]


def test_a_field_called_as_an_events_column_is_not_taken_for_it() -> None:
    """With a schema it has a column of its own, without one the event is no row."""
    source = Source({"id": ID, "_cdc_operation": Column("string")})
    row = {"id": 1, "_cdc_operation": "mine"}
    (made,) = Table().drain([(source.key(1), source.event("c", row))]).table.to_pylist()
    assert (made["_cdc_operation"], made["_cdc_operation_2"]) == ("c", "mine")
    plain = Source()
    decoded = Table().drain(
        [(plain.key(1), plain.event("c", {"id": 1})), (plain.key(1), plain.event("c", row))]
    )
    assert [(each.index, each.field) for each in decoded.bad] == [(1, "_cdc_operation")]


def test_bytes_of_a_decimal_without_a_scale_stop_the_drain() -> None:
    """Text that says its digits does not."""
    table = Table(columns={"amount": ColumnSettings(type="decimal(12,2)")})
    good = (PLAIN.key(1), PLAIN.event("c", {"id": 1, "amount": "12.50"}))
    (row,) = table.drain([good]).table.to_pylist()
    assert row["amount"] == Decimal("12.50")
    with pytest.raises(ConfigError) as refused:
        table.drain([good, (PLAIN.key(2), PLAIN.event("c", {"id": 2, "amount": "BAE="}))])
    assert refused.value.code == "debezium-decimal-without-schema"


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        (None, b"", None),
        (None, b"[1]", None),
        (None, b'{"id":1}', "op"),
        (None, PLAIN.event("x", {}), "op"),
        (None, PLAIN.event("c", None), "after"),
        (None, PLAIN.event("c", {"id": 1}).replace(b'"op":', b'"op":"u","op":'), "op"),
        (None, PLAIN.event("c", {"id": 1}) + b"}", None),
        (None, TYPED.event("c", ROW) + b"}", None),
        (None, TYPED.event("c", ROW)[:-1], None),
        (None, b'{"op":' + b"[" * 100_000, None),
        (None, b"\xff", None),
        (b"text", PLAIN.event("c", {"id": 1}), None),
        (None, PLAIN.event("d", None), "before"),
        (
            None,
            PLAIN.event("c", {"id": 1}, sequence=None).replace(b'"lsn":100', b'"lsn":null'),
            "source.sequence",
        ),
        (None, PLAIN.event("c", {"id": 1}, ts_ms=1 << 60), "source.ts_ms"),
        (None, json.dumps({"schema": {"type": "int32"}, "payload": {"op": "c"}}).encode(), "after"),
        (None, PLAIN.event("c", {"id": 1}).replace(b'"id":1', b'"id":1,"id":2'), "id"),
        (None, TYPED.event("c", ROW).replace(b'"ratio":0.1', b'"ratio":1e999'), "ratio"),
        (None, TYPED.event("c", ROW).replace(b'"ratio":0.1', b'"ratio":1e9999999999999999999'), "ratio"),
        (None, TYPED.event("c", {**ROW, "more": 1}), "more"),
        (None, TYPED.event("c", {**ROW, "uid": "half"}).replace(b'"half"', b'"\\ud800"'), "uid"),
        (None, TYPED.event("c", {**ROW, "bits": "half"}).replace(b'"half"', b'"\\ud800"'), "bits"),
    ],
)
def test_what_is_no_event_is_a_bad_value(key: bytes | None, value: bytes, field: str | None) -> None:
    """Between two that are rows, the first of which has its schema known."""
    good = [(PLAIN.key(1), PLAIN.event("c", {"id": 1})), (TYPED.key(1), TYPED.event("c", ROW))]
    table = Table()
    table.drain(good)
    decoded = table.drain([*good, (key, value), *good])
    assert [(each.index, each.field) for each in decoded.bad] == [(2, field)]
    assert decoded.bad[0].error.encode()
    assert decoded.table.num_rows == 4


def test_a_schema_that_no_table_is_made_of_costs_its_own_events() -> None:
    """Where there is no other, none is made."""
    by_number = {"keys": {"type": "int32"}, "values": {"type": "string"}}
    odd = Source({"id": ID, "odd": Column("map", None, by_number)})
    event = (odd.key(1), odd.event("c", {"id": 1, "odd": []}))
    with pytest.raises(ConfigError) as refused:
        Table().drain([event])
    assert (refused.value.code, refused.value.where["field"]) == ("schema-unsupported", "odd")
    decoded = Table().drain([event, (PLAIN.key(2), PLAIN.event("c", {"id": 2})), event])
    assert [(each.index, each.phase) for each in decoded.bad] == [(0, Phase.SCHEMA), (2, Phase.SCHEMA)]
    assert decoded.table.column("id").to_pylist() == [2]


def test_rows_whose_envelope_was_taken_off_have_the_types_of_their_schema() -> None:
    """And deletes those of the key's; a row with a column that is called as a schema is has none."""
    by_day = TYPED.key(1).replace(b'"field":"id"', b'"field":"day","name":"io.debezium.time.Date"')
    records: list[tuple[bytes | None, bytes | None]] = [
        (TYPED.key(1), TYPED.row(ROW)),
        (TYPED.key(1), None),
        (TYPED.key(2), b'{"schema":"s","id":2}'),
        (by_day.replace(b'{"id":1}', b'{"day":19000}'), None),
    ]
    table = Table(Envelope.UPSERT)
    rows = table.drain(records).table.to_pylist()
    assert [row["_cdc_row_id"] for row in rows] == ['{"id":1}', '{"id":1}', '{"id":2}', '{"day":19000}']
    assert [(row["id"], row["amount"], row["schema"]) for row in rows] == [
        (1, Decimal("-123.45"), None), (1, None, None), (2, None, "s"), (None, None, None),
    ]  # fmt: skip
    assert rows[3]["day"] == date(2022, 1, 8)


def test_of_upserts_a_record_without_a_value_is_the_delete() -> None:
    """Its fields are the key's, if that has any; place and time are the record's."""
    records: list[tuple[bytes | None, bytes | None]] = [
        (b'{"id": 1}', b'{"id": 1, "name": "a"}'),
        (b'{"id": 1}', None),
        (b"text", b'{"id": 2, "name": "b"}'),
        (b"text", None),
        (None, None),
        (b"\xff", b'{"id": 3}'),
    ]
    table = Table(Envelope.UPSERT)
    decoded = table.drain(records)
    assert [(each.index, each.phase) for each in decoded.bad] == [(4, Phase.DECODE), (5, Phase.KEY)]
    rows = decoded.table.to_pylist()
    assert [(row["id"], row["name"], row["_cdc_operation"], row["_cdc_row_id"]) for row in rows] == [
        (1, "a", "u", '{"id":1}'),
        (1, None, "d", '{"id":1}'),
        (2, "b", "u", "text"),
        (None, None, "d", "text"),
    ]
    assert [row["_cdc_sequence"] for row in rows] == [10, 11, 12, 13]
    assert rows[0]["_cdc_timestamp"] == datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)
    timeless = chunk_of(records[:1])
    timeless.timestamps_ms = [-1]
    of_now = table.format().decoder.decode(timeless, table.columns)
    assert of_now.table.column("_cdc_timestamp").to_pylist() == [None]


def test_documents_of_mongodb_are_read_from_their_text() -> None:
    """A delete has no column of its own: its key has another name than the row's."""
    key = b'{"id":"{\\"$oid\\":\\"6a\\"}"}'
    after = json.dumps({"_id": {"$oid": "6a"}, "name": "a"})
    records = [
        (key, PLAIN.event(op, row, connector="mongodb", lsn=0, sequence=None).replace(b'"lsn":0', b'"ord":1'))
        for op, row in (("c", after), ("d", None), ("u", None))
    ]
    decoded = Table().drain(records)
    assert [(each.index, each.field) for each in decoded.bad] == [(2, "after")]
    rows = decoded.table.to_pylist()
    assert [(row["_id"], row["name"], row["_cdc_operation"]) for row in rows] == [
        ({"$oid": "6a"}, "a", "c"),
        (None, None, "d"),
    ]
    assert [row["_cdc_row_id"] for row in rows] == [key.decode()] * 2


@pytest.mark.parametrize(("lsn", "place"), [('"77"', 77), ('"1:4::0:0"', 10)])
def test_a_position_that_is_told_as_text_is_one_where_it_is_a_number(lsn: str, place: int) -> None:
    """As YugabyteDB tells it; else the offset says the order."""
    event = PLAIN.event("c", {"id": 1}, sequence=None).replace(b'"lsn":100', f'"lsn":{lsn}'.encode())
    assert Table().drain([(PLAIN.key(1), event)]).table.to_pylist()[0]["_cdc_sequence"] == place


def test_a_key_that_is_a_struct_as_text_is_refused_by_name() -> None:
    """Two structs may have one text; nothing is read of it."""
    event = PLAIN.event("d", None)
    decoded = Table().drain([(PLAIN.key(1), PLAIN.event("c", {"id": 1})), (b"Struct{id=1}", event)])
    assert [(each.phase, "key.converter" in each.error) for each in decoded.bad] == [(Phase.KEY, True)]


@pytest.mark.parametrize("copies", [1, 40])
def test_a_keys_field_that_rows_lack_has_no_column(copies: int) -> None:
    """Where rows have a schema: it is in the row id alone, of deletes one by one and many at once."""
    key = TYPED.key(1).replace(b'{"id":1}', b'{"id":1,"__dbz__physicalTableIdentifier":"t1"}')
    decoded = Table().drain([(key, TYPED.event("c", ROW)), *[(key, TYPED.event("d", None))] * copies])
    assert (decoded.bad, decoded.ignored or {}) == ((), {})
    row = decoded.table.to_pylist()[-1]
    assert row["_cdc_row_id"] == '{"id":1,"__dbz__physicalTableIdentifier":"t1"}'
    assert (row["id"], row["day"], row["_cdc_operation"]) == (1, None, "d")
    assert not [name for name in row if name.startswith("__dbz")]


def test_a_delete_that_was_rewritten_without_a_key_has_its_row() -> None:
    """With its key it has the key's fields alone, as a tombstone."""
    value = b'{"id":1,"name":"a","__deleted":"true"}'
    rows = Table(Envelope.UPSERT).drain([(None, value), (PLAIN.key(1), value)]).table.to_pylist()
    assert [(row["_cdc_operation"], row["name"]) for row in rows] == [("d", "a"), ("d", None)]


def test_of_a_source_without_a_position_that_is_known_it_is_the_offset() -> None:
    """As MySQL's are, which says a file and a place in it."""
    event = PLAIN.event("c", {"id": 1}, sequence=None).replace(b'"lsn":100', b'"file":"binlog.3","pos":4')
    rows = Table().drain([(PLAIN.key(1), event)] * 2).table.to_pylist()
    assert [row["_cdc_sequence"] for row in rows] == [10, 11]


ANY = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 65), 1 << 65),
    st.sampled_from([-719_162, -719_163, 2_932_896, 2_932_897, 86_399_999, 86_400_000, 253_402_300_799_999]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.binary(max_size=17).map(lambda each: b64encode(each).decode()),
    st.sampled_from(
        ["NaN", "Infinity", "-Infinity", "infinity", ROW["uid"], "2024-02-29T12:00:00Z", "\ud800"]
    ),
    st.sampled_from(["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.9999999Z", "2024-02-30T00:00:00Z"]),
    st.lists(st.none() | st.integers(-3_000_000, 3_000_000), max_size=3),
    st.dictionaries(st.sampled_from(["scale", "value"]), st.integers(-9, 9) | st.just("BQ=="), max_size=2),
)
SCHEMA = RowSchema(TYPED.envelope)


@given(st.lists(st.tuples(st.sampled_from(sorted(ROW)), ANY), min_size=1, max_size=60), st.integers(0, 40))
def test_many_at_once_are_what_each_is_by_itself(changed: list[tuple[str, Any]], good: int) -> None:
    """Rows and refusals, whatever a value is and between whatever others it stands."""
    rows = [json.dumps({**ROW, name: value}).encode() for name, value in changed]
    rows += [json.dumps(ROW).encode()] * good
    read = SCHEMA.read(rows)
    made = dict(
        zip(range(len(rows)) if read.rows is None else read.rows, read.table.to_pylist(), strict=True)
    )
    unread = {each.index for each in read.unread}
    assert made.keys() | unread == {*range(len(rows))}
    for index, row in enumerate(rows):
        try:
            plain = SCHEMA.read_plain(row)
        except UnreadableValueError:
            assert index in unread
        else:
            columns = read.table.schema
            alone = pa.table(
                [column_of([plain[name]], columns.field(name).type) for name in columns.names], columns
            )
            assert repr(alone.to_pylist()[0]) == repr(made[index])


@pytest.mark.parametrize(
    ("time", "is_one"),
    [
        (253_402_300_799_999, True),
        (253_402_300_800_000, False),
        ("9999-12-31T23:59:59.999999Z", True),
        ("0001-01-01T00:00:00+05:00", False),
    ],
)
def test_a_change_is_within_the_years_that_can_be_shown(time: int | str, is_one: bool) -> None:
    """To the last microsecond of them, and wherever on earth it is told."""
    value = {"operation": "u", "key": "k", "value": {"id": 1}, "timestamp": time}
    good: tuple[bytes | None, bytes | None] = (b"k", json.dumps({**value, "timestamp": 0}).encode())
    decoded = Table(Envelope.SLUICE).drain([good, (b"k", json.dumps(value).encode())])
    assert [*decoded.indices] == [0, 1][: 1 + is_one]


@pytest.mark.parametrize("number", [b"1e9997", b"7.5", b"true", b"[7]"])
def test_a_transaction_is_a_whole_number_or_a_text(number: bytes) -> None:
    """Another one is nobody's name: the event is a bad value."""
    event = TYPED.event("c", ROW)
    known = event.index(b'"txId":') + len(b'"txId":')
    other = event[:known] + number + event[event.index(b",", known) :]
    good = (TYPED.key(1), event)
    assert [*Table().drain([good, (TYPED.key(1), other)]).indices] == [0]


def test_a_schema_that_has_a_name_twice_is_no_schema() -> None:
    """Whichever of the two was meant: the event is a bad value, to a drain and to an audit."""
    event = TYPED.event("c", ROW).replace(b'"type":"struct",', b'"type":"struct","type":"struct",', 1)
    good = (TYPED.key(1), TYPED.event("c", ROW))
    assert event != good[1]
    assert [*Table().drain([good, (TYPED.key(1), event), good]).indices] == [0, 2]


@given(st.data())
def test_no_bytes_stop_a_drain(data: st.DataObject) -> None:
    """Events of which some bytes are others, or are not there, are rows or bad values."""
    records = []
    for event in (TYPED.event("c", ROW), PLAIN.event("d", None), PLAIN.event("u", {"id": 1})):
        at = data.draw(st.integers(0, len(event)))
        other = data.draw(st.sampled_from([b"", b"}", b'"', b"\xff", b'{"schema":{', b"[[", b",", b"1e999"]))
        records.append((PLAIN.key(1), event[:at] + other + event[at + data.draw(st.integers(0, 3)) :]))
    good = (TYPED.key(1), TYPED.event("c", ROW))
    decoded = Table(table_schema=SchemaSettings(new_fields=NewFields.IGNORE)).drain([good, *records, good])
    assert {0, 4} <= {*decoded.indices}
