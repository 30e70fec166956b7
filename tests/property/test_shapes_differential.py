"""Expressions on a chunk beside a plain evaluation of each record in Python, and beside pieces of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.shaped import Shaped, chunk_of, letters, shaped

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS = {"a": "decimal(12,2)", "n": "long", "s": "string", "t": "string", "b": "boolean"}
Record = dict[str, Any]


class Failed(Exception):
    """The expression has no value for the record."""


@dataclass(frozen=True)
class Node:
    """An expression as SQL and as a function of a record; None is null."""

    sql: str
    of: Callable[[Record], Any]


def _strict(sql: str, operation: Callable[..., Any], *parts: Node) -> Node:
    """Return what is null when a part is; every part is evaluated."""

    def of(record: Record) -> Any:
        values = [part.of(record) for part in parts]
        return None if None in values else operation(*values)

    return Node(sql.format(*(part.sql for part in parts)), of)


def _and(one: Node, other: Node) -> Node:
    def of(record: Record) -> Any:
        values = one.of(record), other.of(record)
        return False if False in values else None if None in values else True

    return Node(f"({one.sql} AND {other.sql})", of)


def _or(one: Node, other: Node) -> Node:
    def of(record: Record) -> Any:
        values = one.of(record), other.of(record)
        return True if True in values else None if None in values else False

    return Node(f"({one.sql} OR {other.sql})", of)


def _case(condition: Node, then: Node, otherwise: Node) -> Node:
    def of(record: Record) -> Any:
        return then.of(record) if condition.of(record) is True else otherwise.of(record)

    return Node(f"CASE WHEN {condition.sql} THEN {then.sql} ELSE {otherwise.sql} END", of)


def _coalesce(one: Node, other: Node) -> Node:
    def of(record: Record) -> Any:
        first = one.of(record)
        return other.of(record) if first is None else first

    return Node(f"coalesce({one.sql}, {other.sql})", of)


def _number(text: str) -> int:
    # DuckDB's cast takes blanks around it, and these texts have none.
    if not text.lstrip("-").isdecimal() or text.count("-") > 1:
        raise Failed
    return int(text)


def _field(name: str) -> Node:
    return Node(name, lambda record: record.get(name))


def _constant(sql: str, value: Any) -> Node:
    return Node(sql, lambda _record: value)


AMOUNT = Node("a", lambda record: None if record.get("a") is None else Decimal(record["a"]))
_numbers: st.SearchStrategy[Node] = st.deferred(
    lambda: _leaves | _sums | st.builds(_coalesce, _leaves, _leaves) | _cases
)
_leaves: st.SearchStrategy[Node] = st.sampled_from(
    [
        AMOUNT,
        _field("n"),
        _strict("{0} * {1}", lambda a, n: a * n, AMOUNT, _field("n")),
        _strict("CAST({0} AS BIGINT)", _number, _field("s")),
        _strict("length({0})", len, _field("t")),
        _strict("-({0})", lambda n: -n, _field("n")),
        _constant("2", 2),
        _constant("0.25", Decimal("0.25")),
    ]
)
_sums: st.SearchStrategy[Node] = st.builds(
    lambda x, y: _strict("({0} + {1})", lambda p, q: p + q, x, y), _numbers, _leaves
) | st.builds(lambda x, y: _strict("({0} - {1})", lambda p, q: p - q, x, y), _numbers, _leaves)
_texts = st.sampled_from(
    [
        _field("s"),
        _field("t"),
        _strict("{0} || {1}", lambda s, t: s + t, _field("s"), _field("t")),
        _strict("upper({0})", str.upper, _field("t")),
        _constant("'x'", "x"),
    ]
)
_conditions: st.SearchStrategy[Node] = st.deferred(
    lambda: (
        st.just(_field("b"))
        | st.builds(lambda x, y: _strict("({0} > {1})", lambda p, q: p > q, x, y), _numbers, _numbers)
        | st.builds(lambda x, y: _strict("({0} = {1})", lambda p, q: p == q, x, y), _texts, _texts)
        | st.builds(lambda x: _strict("{0} IN ('x', 'NO')", lambda p: p in {"x", "NO"}, x), _texts)
        | st.builds(lambda x: Node(f"{x.sql} IS NULL", lambda record: x.of(record) is None), _texts)
        | st.builds(lambda x: _strict("(NOT {0})", lambda p: not p, x), _conditions)
        | st.builds(_and, _conditions, _conditions)
        | st.builds(_or, _conditions, _conditions)
    )
)
# DuckDB asks parts of a CASE's condition or not, as it likes: here none of them can fail.
_sure_conditions = _conditions.filter(lambda condition: "CAST" not in condition.sql)
_cases: st.SearchStrategy[Node] = st.builds(_case, _sure_conditions, _leaves, _leaves)
_words = st.sampled_from(["x", "NO", "", "é", "7", "-12", "1x", "--1"])
_records = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.none() | st.decimals(-999, 999, places=2).map(str),
            "n": st.none() | st.integers(-99, 99),
            "s": st.none() | _words,
            "t": st.none() | _words,
            "b": st.none() | st.booleans(),
        },
    ),
    min_size=1,
    max_size=20,
)


def _plain(record: Record, number: Node, text: Node, condition: Node) -> Any:
    """Return the row's two values, why there is none, or the reason that the filter has."""
    try:
        made = number.of(record), text.of(record)
    except Failed:
        return "transform"
    if made[0] is not None:
        exact = Decimal(made[0])
        if exact != exact.quantize(Decimal("0.01")):
            return "transform"
    try:
        kept = condition.of(record)
    except Failed:
        return "transform"
    return made if kept is True else "missing" if kept is None else "excluded"


def _became(table: Shaped, values: list[bytes], *, cut: int = 0) -> dict[int, Any]:
    """Return what became of each record, when they come in two chunks."""
    found: dict[int, Any] = {}
    for first, part in ((0, values[:cut]), (cut, values[cut:])):
        if part:
            made = table.maker.make(chunk_of(part))
            rows = made.rows.select(["_kafka_offset", "made", "word"]).to_pylist()
            found |= {first + row["_kafka_offset"]: (row["made"], row["word"]) for row in rows}
            found |= {first + offset: (phase, field, why) for offset, phase, field, why in letters(made)}
            found |= {first + offset: reason for reason, left in made.left_out.items() for offset in left}
    return found


@settings(max_examples=60)
@given(_records, _numbers, _texts, _conditions, st.integers(0, 20))
def test_a_chunk_is_evaluated_as_each_record_alone(
    records: list[Record], number: Node, text: Node, condition: Node, cut: int
) -> None:
    """By their values, nulls and failures; and however the records are cut into chunks."""
    table = shaped(
        {
            **_COLUMNS,
            "made": {"type": "decimal(38,2)", "sql": number.sql},
            "word": {"type": "string", "sql": text.sql},
        },
        filter=condition.sql,
    )
    values = [json.dumps(record).encode() for record in records]
    found = _became(table, values)
    plain = {at: _plain(record, number, text, condition) for at, record in enumerate(records)}
    assert {
        at: each[0] if isinstance(each, tuple) and len(each) == 3 else each for at, each in found.items()
    } == plain
    assert _became(table, values, cut=min(cut, len(values))) == found


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(
            ['"12"', "12", "1.50", '"x"', "null", "true", "[1]", '{"k":1e2}', '"2026-01-01"', '""']
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_what_a_field_is_beside_changes_nothing(bodies: list[str], cut: int) -> None:
    """A field without a column is of any kind in any record: text, form or path, each is read alone."""
    table = shaped(
        {
            "made": {"type": "string", "sql": "thing || '!'"},
            "word": {"type": "string", "jmespath": "other"},
            "number": {"type": "long", "from": "text"},
            "whole": {"type": "string", "from": "json"},
        }
    )
    values = [f'{{"thing": {b}, "other": {b}, "number": {b}, "whole": {b}}}'.encode() for b in bodies]
    alone = {at: next(iter(_became(table, [value]).values())) for at, value in enumerate(values)}
    assert _became(table, values, cut=min(cut, len(values))) == alone
