"""Conditions in SQL keep the rows that they kept when pandas' grammar was theirs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.expressions.conditions import judge_condition, line_instead
from spark_jobs.quality.judge import meeting, to_frame

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3) | st.just(2**60),
    "s": st.text("aB'é\n", max_size=2),
    "f": st.sampled_from([-1.5, 0.0, 0.1, 1.0, 2.5, 1e300, 0.12345678901234568]),
    "select": st.booleans(),
}
_KINDS = {"n": pa.int64(), "s": pa.string(), "f": pa.float64(), "select": pa.bool_()}
_NULLABLE = ("n", "s", "f")
_SPELLED = {"select": ["select", "`select`"], "n": ["n", "`n`"], "s": ["s"], "f": ["f"]}


@st.composite
def _comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_VALUES)))
    name, literal = draw(st.sampled_from(_SPELLED[column])), _VALUES[column].map(_literal)
    kind = draw(st.sampled_from(["compared", "mirrored", "chained", "in", "not in", "isnull", "notnull"]))
    orders = ["==", "!="] if column == "select" else ["==", "!=", "<", "<=", ">", ">="]
    order, other = draw(st.sampled_from(orders)), draw(st.sampled_from(orders))
    match kind:
        case "compared":
            return f"{name} {order} {draw(literal)}"
        case "mirrored":
            return f"{draw(literal)} {order} {name}"
        case "chained":
            return f"{draw(literal)} {order} {name} {other} {draw(literal)}"
        case "in" | "not in":
            return f"{name} {kind} [{', '.join(draw(st.lists(literal, min_size=1, max_size=3)))}]"
    return f"{name}.{kind}()"


def _literal(value: object) -> str:
    if isinstance(value, str) and "'" not in value and "\\" not in value and "\n" not in value:
        return f'"{value}"' if len(value) == 1 else f"'{value}'"
    return repr(value)


def _joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    alone = parts.map(lambda each: f"({each})")
    inverted = st.sampled_from(["not ", "~"]).flatmap(lambda sign: alone.map(lambda each: sign + each))
    both = st.tuples(
        alone,
        st.sampled_from([" and ", " or ", " & ", " | "]),
        alone | inverted.map(lambda each: f"({each})"),
    ).map("".join)
    loose = st.tuples(_comparisons(), st.sampled_from([" and ", " or "]), _comparisons()).map("".join)
    return inverted | both | loose


CONDITIONS = _comparisons() | st.recursive(_comparisons(), _joined, max_leaves=4).flatmap(
    lambda each: _joined(st.just(each))
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | st.none() | each if name in _NULLABLE else each for name, each in _VALUES.items()}
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: pa.Table.from_pylist(rows, pa.schema(list(_KINDS.items()))))


@given(CONDITIONS, ROWS)
def test_a_condition_of_before_keeps_the_rows_that_pandas_keeps(condition: str, rows: pa.Table) -> None:
    """As it stands where SQL takes it, else by the line to write instead, which is taken then."""
    before = to_frame(rows, rows.column_names).query(condition, engine="python")
    line = line_instead(condition)
    if line is not None:
        assert line_instead(line) is None
        assert judge_condition(line)
    assert meeting(line or condition, rows).nonzero()[0].tolist() == before.index.tolist()
