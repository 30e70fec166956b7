"""The metadata that Flight SQL clients request from a server: facts, and schemas of empty answers."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import flight

from spark_jobs import __version__

TABLE_TYPES = ("BASE TABLE", "VIEW")
_KINDS = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
)
_TEXT, _TRUTH, _LONG, _NUMBER, _TEXTS, _MAP = range(len(_KINDS))
# Not every driver reads a schema with other names; Go's driver panics.
INFO_SCHEMA = pa.schema(
    [pa.field("info_name", pa.uint32(), nullable=False), pa.field("value", pa.dense_union(_KINDS))]
)


# By the numbers of the enumeration SqlInfo; drivers fail if one is missing. For many, zero means unsupported
# or unlimited.
_NUMBERS: dict[int, Collection[int]] = {
    _TRUTH: (
        *(*range(3, 6), 9, *range(500, 503), 506, 515, 516, *range(518, 522), 523, 524, 527, 532),
        *(536, 537, 539, 556, 563, 565, 566, *range(572, 577)),
    ),
    _NUMBER: (
        *(8, 100, 101, 503, 505, 507, 522, 525, 526, 528, *range(533, 536), 538, 540, 564, *range(567, 572)),
    ),
    # JDBC's driver takes the last, how transactions are isolated, in no other form.
    _LONG: (*range(541, 556), *range(557, 562), 562),
    _TEXT: (0, 1, 2, 504, 513, 514, 529, 530, 531),
    _TEXTS: range(508, 513),
    _MAP: (517,),
}
_NOTHING: dict[int, Any] = {_TRUTH: False, _NUMBER: 0, _LONG: 0, _TEXT: "", _TEXTS: [], _MAP: []}
# The server is read-only, and every listed table can be selected. Aliases, outer joins, subqueries, GROUP BY
# and UNION are those of DuckDB, which ignores the case of names.
_TRUE = (3, 4, 506, 515, 516, 518, 520, 521, 523, 532, 539)
_NULLS_AT_END, _FULL_OUTER_JOINS, _FORWARD_ONLY = 3, 2, 1 << 1
_CASE_INSENSITIVE, _BOTH, _EVERY, _FIRST = 1, 0b11, 0b1111, 0b1
_TEXTS_AT = (0, 1, 2, 504, 513, 529, 531)
_TEXTS_OF = ("Sluice", __version__, pa.__version__, '"', "\\", "schema", "catalog")
_VALUES: dict[int, Any] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys((503, 505), _CASE_INSENSITIVE),
    **dict.fromkeys((522, 540), _BOTH),
    **dict.fromkeys((525, 526), _FIRST),
    **dict.fromkeys((567, 569), _FORWARD_ONLY),
    **dict(zip(_TEXTS_AT, _TEXTS_OF, strict=True)),
    507: _NULLS_AT_END,
    528: _FULL_OUTER_JOINS,
    538: _EVERY,
}
_FACTS = [
    (number, kind, _VALUES.get(number, _NOTHING[kind]))
    for kind, numbers in _NUMBERS.items()
    for number in numbers
]


def facts(numbers: Collection[int]) -> pa.Table:
    """Return the facts of these numbers, or all facts without numbers; unknown numbers are left out."""
    chosen = [fact for fact in _FACTS if not numbers or fact[0] in numbers]
    held: list[list[Any]] = [[] for _ in _KINDS]
    places = []
    for _, kind, value in chosen:
        places.append(len(held[kind]))
        held[kind].append(value)
    values = pa.UnionArray.from_dense(
        pa.array([kind for _, kind, _ in chosen], pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(each, kind.type) for each, kind in zip(held, _KINDS, strict=True)],
        [kind.name for kind in _KINDS],
    )
    named = pa.array([number for number, _, _ in chosen], pa.uint32())
    return pa.Table.from_arrays([named, values], schema=INFO_SCHEMA)


def _schema(*columns: str, **typed: pa.DataType) -> pa.Schema:
    """Return a schema of text columns; "!" marks columns that are never null."""
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


# Authentication over Flight: a token as bearer token, or as the password of any user.


class NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Accepts every handshake, since each call's headers are authenticated instead."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Do nothing."""

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002
        """Accept the token; it is checked with each call."""
        return b""


class Headers(flight.ServerMiddleware):  # type: ignore[misc]
    """The headers of a call, by lower-case name; returns the token as JDBC's driver expects it."""

    def __init__(self, said: Mapping[str, str], token: str | None) -> None:
        self.said = said
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        """Return the authorization header for later calls."""
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Rejects every call without one of the tokens; without tokens, all calls are accepted."""

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = tuple(tokens)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> Headers:  # noqa: ARG002
        """Return the call's headers. Raises ``FlightUnauthenticatedError``."""
        said = {name.lower(): _text(values[-1]) for name, values in headers.items() if values}
        token = _token_of(said.get("authorization", ""))
        is_known = any(hmac.compare_digest(token.encode(), each.encode()) for each in self._tokens)
        if self._tokens and not is_known:
            raise flight.FlightUnauthenticatedError("A token is required: as bearer token or as password.")
        return Headers(said, token or None)


def _token_of(written: str) -> str:
    scheme, _, value = written.partition(" ")
    if scheme.lower() != "basic":
        return value.strip() if scheme.lower() == "bearer" else ""
    padding = "=" * (-len(value) % 4)  # which Go's client leaves out
    try:
        return base64.b64decode(value + padding, validate=True).partition(b":")[2].decode()
    except ValueError:
        return ""


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
