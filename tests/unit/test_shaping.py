"""Rows as a pipeline wants them: columns by expressions, fields in another form, a filter."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.json.infer import observe
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.records.row_maker import NewFieldsSeen
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.writer_schema import Language, SchemaText
from spark_jobs.values.exact import placed
from tests.support.shaped import Shaped, chunk_of, column, letters, shaped

AMOUNTS = {"amount": "decimal(12,2)", "quantity": "long"}
TOTAL = {**AMOUNTS, "total": {"type": "decimal(12,2)", "sql": "amount * quantity"}}


def test_a_column_is_what_its_expression_gives() -> None:
    """Exactly: decimals to the cent, null where a part is null."""
    made = shaped(TOTAL).of_json(
        {"amount": "1.50", "quantity": 3}, {"amount": 2}, {"amount": 0.01, "quantity": -1}
    )
    assert column(made, "total") == [Decimal("4.50"), None, Decimal("-0.01")]
    assert not letters(made)


def test_what_does_not_fit_is_a_dead_letter_that_names_the_column() -> None:
    """Past the column's digits, or rounded by it: that record alone is none."""
    table = shaped({**TOTAL, "half": {"type": "decimal(12,2)", "sql": "amount / 1.000 * 0.5"}})
    with pytest.raises(ConfigError, match=r"columns\.half\.sql: gives double"):
        _ = table.maker
    table = shaped({**TOTAL, "half": {"type": "decimal(12,2)", "sql": "amount * 0.5"}})
    made = table.of_json(
        {"amount": 9999999999, "quantity": 99}, {"amount": 2, "quantity": 1}, {"amount": "0.01"}
    )
    assert column(made, "half") == [Decimal("1.00")]
    assert letters(made) == [
        (0, "transform", "total", "989999999901.00 does not fit decimal(12, 2)"),
        (2, "transform", "half", "0.005 does not fit decimal(12, 2)"),
    ]


def test_an_expression_that_fails_names_its_record_alone() -> None:
    """Wherever in the chunk it is; the other columns and records are as they would be without it."""
    table = shaped({"size": {"type": "int", "sql": "CAST(size AS INTEGER)"}, "n": "long"})
    values: list[dict[str, Any]] = [{"size": str(n), "n": n} for n in range(5000)]
    for bad in (0, 17, 2048, 4999):
        values[bad]["size"] = f"x{bad}"
    made = table.of_json(*values)
    assert [(offset, field) for offset, _, field, _ in letters(made)] == [
        (bad, "size") for bad in (0, 17, 2048, 4999)
    ]
    assert "Could not convert string 'x17' to INT32" in letters(made)[1][3]
    assert (
        column(made, "size") == column(made, "n") == [n for n in range(5000) if n not in {0, 17, 2048, 4999}]
    )


def test_the_filter_has_three_values() -> None:
    """True keeps; null is missing, false excluded; both are counted by partition, and nowhere else."""
    table = shaped({**TOTAL, "country": "string"}, filter="country IN ('NO', 'SE') AND total > 0")
    made = table.of_json(
        {"amount": 1, "quantity": 1, "country": "NO"},
        {"amount": 1, "quantity": 1, "country": "DK"},
        {"amount": 1, "quantity": 1},
        {"amount": 1, "country": "SE"},
        {"amount": -1, "quantity": 1, "country": "SE"},
        {"amount": 1, "quantity": "x", "country": "NO"},
    )
    assert column(made, "_kafka_offset") == [0]
    assert made.left_out == {"missing": [2, 3], "excluded": [1, 4]}
    assert made.balances == {0: {"rows": 1, "dead_letters": 1, "tombstones": 0, "gaps": 0, "filtered": 4}}
    assert made.dead_letter_phases == {"decode": 1}


def test_a_filter_that_fails_makes_a_dead_letter_of_its_record() -> None:
    """Phase transform, without a field: it speaks of the whole record."""
    made = shaped({"n": "string"}, filter="CAST(n AS BIGINT) > 1").of_json({"n": "2"}, {"n": "x"}, {"n": "0"})
    assert [(offset, phase, field) for offset, phase, field, _ in letters(made)] == [(1, "transform", None)]
    assert made.left_out == {"excluded": [2]}


def test_a_field_without_a_column_is_text() -> None:
    """Strings as they are, anything else as it is written, whatever the records beside it hold."""
    table = shaped({"made": {"type": "string", "sql": "thing"}, "n": "long"})
    bodies = ['"a"', "1", "1.50", "true", "null", "[1,2.0]", '{"b": 1e3}', "12345678901234567890123", "1e400"]
    made = table.of_json(*(f'{{"thing": {body}}}'.encode() for body in bodies), {"n": 1})
    expected = [
        "a",
        "1",
        "1.50",
        "true",
        None,
        "[1,2.0]",
        '{"b":1e3}',
        "12345678901234567890123",
        "1e400",
        None,
    ]
    assert column(made, "made") == expected
    assert not made.ignored


def test_a_table_is_exactly_its_declared_columns() -> None:
    """Fields that are ignored have no column; the value's others are renamed, dropped and reshaped."""
    evidence = observe([b'{"a": 1, "b": {"c": "x"}}'], partition=0, offsets=[0])
    columns = {"first": {"type": "long", "sql": "CAST(a AS BIGINT)"}, "b": "struct<c: string>"}
    table = Shaped(shaped(columns).pipeline, evidence=evidence)
    assert [each.name for each in table.schema.fields if not each.name.startswith("_")] == ["first", "b"]
    plain = shaped({"b": "struct<c: string>"})
    assert "a" in Shaped(plain.pipeline, evidence=evidence).schema.column_names


def test_new_fields_get_columns_beside_expressions() -> None:
    """An expression's column binds no field of its name, which is no new one either; others are added."""
    table = shaped({"total": {"type": "long", "sql": "CAST(total AS BIGINT) * 2"}}, exact=False)
    assert column(table.of_json({"total": "4"}, {"total": [1]}, {"total": None}, {}), "total") == [
        8,
        None,
        None,
    ]
    with pytest.raises(NewFieldsSeen):
        table.maker.make(chunk_of([b'{"total": "4", "other": 1}']))


def test_kafkas_own_are_there_and_the_time_of_ingestion_is_not() -> None:
    """Coordinates, key, headers and time of the record."""
    table = shaped(
        {
            "day": {"type": "date", "sql": "CAST(_kafka_timestamp AS DATE)"},
            "id": {
                "type": "string",
                "sql": "_kafka_topic || '/' || _kafka_partition || '/' || _kafka_offset",
            },
            "key": {"type": "string", "sql": "upper(_kafka_key)"},
            "traced": {"type": "boolean", "sql": "_kafka_headers IS NOT NULL AND _kafka_generation = 1"},
        }
    )
    made = table.of_json({}, {})
    assert column(made, "day") == [date(2026, 1, 1)] * 2
    assert column(made, "id") == ["orders/0/0", "orders/0/1"]
    assert column(made, "key") == ["K0", "K1"]
    assert column(made, "traced") == [False, False]


def test_paths_lead_into_documents() -> None:
    """What they lead to is taken as a field that holds it; digits are not rounded on the way."""
    table = shaped(
        {
            "who": {"type": "string", "jmespath": "customer.name"},
            "price": {"type": "decimal(20,4)", "jmespath": "items[0].price"},
            "id": {"type": "decimal(38,0)", "jmespath": "items[0].id"},
            "tags": {"type": "list<string>", "jmespath": "tags[].name"},
            "n": {"type": "long", "jmespath": "length(tags)"},
        }
    )
    big = 123456789012345678901234567890
    made = table.of_json(
        f'{{"customer":{{"name":"a"}},"items":[{{"price":123456789012.1234,"id":{big}}}],"tags":[{{"name":"x"}}]}}'.encode(),
        {"tags": []},
        {"customer": {"name": 1}, "tags": []},
        {"customer": "x", "tags": 1},
    )
    assert column(made, "who") == ["a", None]
    assert column(made, "price") == [Decimal("123456789012.1234"), None]
    assert column(made, "id") == [Decimal(big), None]
    assert column(made, "tags") == [["x"], []]
    assert [(offset, field) for offset, _, field, _ in letters(made)] == [(2, "who"), (3, "n")]


ORDER = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "quantity", "type": "long"},
        {"name": "total", "type": "string"},
        {"name": "qty", "type": "string"},
        {"name": "at", "type": "long"},
        {
            "name": "buyer",
            "type": {"type": "record", "name": "B", "fields": [{"name": "name", "type": "string"}]},
        },
    ],
}


def _avro(**changed: Any) -> bytes:
    row = {
        "amount": Decimal("1.50"),
        "quantity": 2,
        "total": "t",
        "qty": "7",
        "at": 1000,
        "buyer": {"name": "b"},
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), {**row, **changed})
    return b"\0\0\0\0\x01" + out.getvalue()


@pytest.mark.parametrize("exact", [True, False])
def test_values_with_a_schema_are_shaped_alike(exact: bool) -> None:
    """Expressions speak of columns; a field of an expression's name gets a column beside it, or none."""
    schemas = KnownSchemas(
        {SchemaKey(SchemaId(1)): avro_schema(SchemaText(Language.AVRO, json.dumps(ORDER)))}
    )
    table = shaped(
        {
            **TOTAL,
            "qty": {"type": "long", "from": "text"},
            "at": {"type": "timestamptz", "from": "epoch_s"},
            "buyer": "struct<name: string>",
            "who": {"type": "string", "sql": "buyer.name"},
        },
        exact=exact,
        value={"format": "avro", "registry": "main"},
        filter="quantity > 0",
    )
    table = Shaped(table.pipeline, schemas)
    own = [each.name for each in table.schema.fields if not each.name.startswith("_")]
    assert own == [*table.pipeline.columns, *(() if exact else ("total_2",))]
    made = table.make(_avro(), _avro(qty="x"), _avro(quantity=0))
    assert (column(made, "total"), column(made, "who"), column(made, "qty")) == (
        [Decimal("3.00")],
        ["b"],
        [7],
    )
    assert column(made, "at") == [datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)]
    assert [(offset, phase, field) for offset, phase, field, _ in letters(made)] == [(1, "transform", "qty")]
    assert made.left_out == {"excluded": [2]}
    if not exact:
        assert column(made, "total_2") == ["t"]


def test_what_does_not_go_together_with_the_table_is_told_before_any_record() -> None:
    """By the column and a cast; of values with a schema also a field that has no column."""
    table = shaped({"made": {"type": "long", "sql": "amount * 2"}})
    with pytest.raises(ConfigError, match=r"columns\.made\.sql: .*No function matches") as told:
        _ = table.maker
    assert "A field without a column is text here: CAST(amount AS DECIMAL(12,2))" in (told.value.hint or "")
    clash = shaped({"made": {"type": "long", "sql": "quantity + word"}, "quantity": "long", "word": "string"})
    with pytest.raises(ConfigError, match=r"columns\.made\.sql: ") as told:
        _ = clash.maker
    assert told.value.hint == "Cast what is of another type: CAST(amount AS DECIMAL(12,2))."
    with pytest.raises(ConfigError, match="filter: gives int64, and a filter is true or false"):
        _ = shaped(AMOUNTS, filter="quantity + 1").maker


LATE_MS = 253_402_300_800_000  # the year 10000


@pytest.mark.parametrize(
    ("form", "kind", "exact", "letters_of"),
    [
        (
            "text",
            "long",
            {'"12"': 12, '"-9223372036854775808"': -(2**63), "null": None},
            ['""', '"01"', '"1.0"', '" 1"', '"9223372036854775808"', "1"],
        ),
        ("text", "int", {'"2147483647"': 2**31 - 1}, ['"2147483648"', '"+1"', '"1e3"']),
        (
            "text",
            "double",
            {'"1.5"': 1.5, '"-1e3"': -1000.0, '"3"': 3.0},
            ['"9007199254740993"', '"nan"', '"1,5"', '".5"', '"1e999"'],
        ),
        (
            "text",
            "decimal(5,2)",
            {'"1.50"': Decimal("1.50"), '"1"': Decimal(1)},
            ['"1.505"', '"1000"', '"x"', '""'],
        ),
        ("text", "boolean", {'"true"': True, '"false"': False}, ['"True"', '"1"', '"yes"', '""', "true"]),
        (
            "text",
            "date",
            {'"2026-01-31"': date(2026, 1, 31)},
            ['"2026-02-30"', '"31.01.2026"', '"2026-01-31T00:00:00"'],
        ),
        (
            "text",
            "timestamptz",
            {'"2026-01-01T01:00:00+01:00"': datetime(2026, 1, 1, tzinfo=UTC)},
            ['"2026-01-01T00:00:00"', '"2026-01-01T00:00:00.1234567Z"'],
        ),
        (
            "text",
            "timestamp",
            {'"2026-01-01T00:00:00"': datetime.fromisoformat("2026-01-01T00:00:00")},
            ['"2026-01-01T00:00:00Z"', '"today"'],
        ),
        (
            "epoch_s",
            "timestamptz",
            {"1": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
            ["1.5", '"1"', str(LATE_MS // 1000), str(2**63 - 1)],
        ),
        (
            "epoch_ms",
            "timestamp",
            {"-1": datetime.fromisoformat("1969-12-31T23:59:59.999")},
            [str(LATE_MS), "true"],
        ),
        (
            "epoch_us",
            "timestamptz",
            {"1": datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)},
            [str(LATE_MS * 1000)],
        ),
        (
            "epoch_ms",
            "date",
            {"86400000": date(1970, 1, 2), "-86400000": date(1969, 12, 31)},
            ["86400001", "1"],
        ),
        (
            "number",
            "string",
            {"1": "1", "1.50": "1.50", "12345678901234567890123": "12345678901234567890123"},
            ['"1"', "true", "[1]"],
        ),
        ("number", "long", {"1.0": 1, "1e3": 1000, "7": 7}, ["1.5", "1e30", "1e999", '"1"']),
        ("number", "decimal(5,2)", {"1.5": Decimal("1.50")}, ["1.505", "1e3"]),
        ("number", "double", {"1": 1.0, "0.1": 0.1}, ["9007199254740993"]),
        ("number", "boolean", {"0": False, "1": True}, ["2", "1.0", "true"]),
        (
            "json",
            "string",
            {'{"a": [1.50, null]}': '{"a":[1.50,null]}', '"x"': '"x"', "1e3": "1e3", "true": "true"},
            [],
        ),
    ],
)
def test_a_field_is_converted_exactly_or_not_at_all(
    form: str, kind: str, exact: dict[str, Any], letters_of: list[str]
) -> None:
    """Never cut, rounded or guessed; the records beside it make no difference."""
    table = shaped({"made": {"type": kind, "from": form}})
    bodies = [*exact, *letters_of]
    made = table.make(*(f'{{"made": {body}}}'.encode() for body in bodies))
    assert column(made, "made") == [*exact.values()]
    assert [(offset, field) for offset, _, field, _ in letters(made)] == [
        (offset, "made") for offset in range(len(exact), len(bodies))
    ]
    for body, value in exact.items():
        assert column(table.make(f'{{"made": {body}}}'.encode()), "made") == [value]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([0, 1, 2, -1, None]), [False, True, None, None, None]),
        (pa.array([0.0, 1.0, 0.5, float("nan")]), [False, True, None, None]),
    ],
)
def test_numbers_that_are_neither_0_nor_1_are_no_booleans(
    values: pa.Array, wanted: list[bool | None]
) -> None:
    """Arrow takes them all for true; also as results of expressions, and of values with a schema."""
    made, misfits = placed(values, pa.bool_())
    assert made.to_pylist() == wanted
    assert [*misfits] == [at for at, value in enumerate(wanted) if value is None and values[at].is_valid]
