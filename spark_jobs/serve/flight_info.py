"""What Flight SQL's clients ask about a server before they ask anything of it: facts, and empty answers."""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version
from typing import Any, NamedTuple

import pyarrow as pa

TABLE_TYPES = ("BASE TABLE", "VIEW")
_KINDS = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
)
_TEXT, _TRUTH, _NUMBER, _TEXTS = 0, 1, 3, 4
# One that differs by a name is not read by every driver; Go's panics over it.
INFO_SCHEMA = pa.schema(
    [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", pa.dense_union(_KINDS))]
)


class _Fact(NamedTuple):
    number: int  # of the enumeration SqlInfo
    kind: int
    value: Any


_NO, _YES = False, True
_IS_CASE_INSENSITIVE, _NULLS_LAST, _ALL_OUTER_JOINS = 1, 3, 2
_FACTS = (
    _Fact(0, _TEXT, "Sluice"),
    _Fact(1, _TEXT, version("sluice")),
    _Fact(2, _TEXT, pa.__version__),
    _Fact(3, _TRUTH, _YES),  # read only
    _Fact(4, _TRUTH, _YES),  # SQL
    _Fact(5, _TRUTH, _NO),  # Substrait
    _Fact(8, _NUMBER, 0),  # transactions
    _Fact(9, _TRUTH, _NO),  # cancelling
    _Fact(500, _TRUTH, _NO),  # catalogs that are made or dropped, schemas, tables
    _Fact(501, _TRUTH, _NO),
    _Fact(502, _TRUTH, _NO),
    _Fact(503, _NUMBER, _IS_CASE_INSENSITIVE),
    _Fact(504, _TEXT, '"'),
    _Fact(505, _NUMBER, _IS_CASE_INSENSITIVE),
    _Fact(506, _TRUTH, _YES),  # who sees a table may select from it
    _Fact(507, _NUMBER, _NULLS_LAST),
    *(_Fact(number, _TEXTS, []) for number in range(508, 513)),  # keywords and functions: none are told
    _Fact(513, _TEXT, "\\"),
    _Fact(514, _TEXT, ""),
    _Fact(515, _TRUTH, _YES),  # aliases of columns
    _Fact(516, _TRUTH, _YES),
    _Fact(518, _TRUTH, _YES),  # names for tables
    _Fact(519, _TRUTH, _NO),
    _Fact(520, _TRUTH, _YES),
    _Fact(521, _TRUTH, _YES),
    _Fact(528, _NUMBER, _ALL_OUTER_JOINS),
    _Fact(529, _TEXT, "schema"),
    _Fact(531, _TEXT, "catalog"),
    _Fact(532, _TRUTH, _YES),
)


def facts(numbers: Collection[int]) -> pa.Table:
    """Return the facts of these numbers, all for none; what is not known is left out."""
    chosen = [fact for fact in _FACTS if not numbers or fact.number in numbers]
    held: list[list[Any]] = [[] for _ in _KINDS]
    places = []
    for fact in chosen:
        places.append(len(held[fact.kind]))
        held[fact.kind].append(fact.value)
    values = pa.UnionArray.from_dense(
        pa.array([fact.kind for fact in chosen], pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(each, kind.type) for each, kind in zip(held, _KINDS, strict=True)],
        [kind.name for kind in _KINDS],
    )
    named = pa.array([fact.number for fact in chosen], pa.uint32())
    return pa.Table.from_arrays([named, values], schema=INFO_SCHEMA)


def _schema(*columns: str, **typed: pa.DataType) -> pa.Schema:
    """Return columns of text; "!" marks those that are never null."""
    fields = [(name, pa.string()) for name in columns] + [*typed.items()]
    return pa.schema([pa.field(name.rstrip("!"), kind, not name.endswith("!")) for name, kind in fields])


CATALOGS = _schema("catalog_name!")
DB_SCHEMAS = _schema("catalog_name", "db_schema_name!")
TABLES = _schema("catalog_name", "db_schema_name", "table_name!", "table_type!")
TABLES_WITH_SCHEMAS = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TYPES = _schema("table_type!")
PRIMARY_KEYS = pa.schema(
    [
        *_schema("catalog_name", "db_schema_name", "table_name!", "column_name!", "key_name"),
        pa.field("key_sequence", pa.int32(), nullable=False),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        *_schema("pk_catalog_name", "pk_db_schema_name", "pk_table_name!", "pk_column_name!"),
        *_schema("fk_catalog_name", "fk_db_schema_name", "fk_table_name!", "fk_column_name!"),
        pa.field("key_sequence", pa.int32(), nullable=False),
        *_schema("fk_key_name", "pk_key_name"),
        pa.field("update_rule", pa.uint8(), nullable=False),
        pa.field("delete_rule", pa.uint8(), nullable=False),
    ]
)
