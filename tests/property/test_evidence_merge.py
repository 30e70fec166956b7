"""Evidence can be gathered by many tasks and put together in any order."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats.json.infer import observe
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.inference import Field, choose_types, evolve

_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["2024-01-01T00:00:00Z", "x", ""]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB."), inner, max_size=3),
    max_leaves=8,
)
_RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "A", "a.b", ""]), _JSON, max_size=4), max_size=5
)


@st.composite
def _evidence(draw: st.DrawFn) -> Evidence:
    values = [json.dumps(record).encode() for record in draw(_RECORDS)]
    first = draw(st.integers(0, 100))
    return observe(values, partition=draw(st.integers(0, 2)), offsets=range(first, first + len(values)))


@given(_evidence(), _evidence(), _evidence())
def test_merging_is_associative_and_commutative(a: Evidence, b: Evidence, c: Evidence) -> None:
    """Whatever the order and grouping, the same evidence and so the same columns."""
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b) == b.merge(a)
    assert a.merge(Evidence()) == a
    assert choose_types(a.merge(b)) == choose_types(b.merge(a))


@given(_evidence())
def test_evidence_survives_json(evidence: Evidence) -> None:
    """What a task hands back is what the driver reads."""
    assert Evidence.from_json(evidence.to_json()) == evidence


@given(_evidence(), _evidence())
def test_evolution_ends(first: Evidence, second: Evidence) -> None:
    """Columns made from some records and widened for others need nothing more for either."""
    columns = choose_types(first)
    for _ in range(10):
        additions = evolve(columns, second)
        top = [addition for addition in additions if len(addition.path) == 1]
        if not top:
            break
        columns = (*columns, *(Field(addition.path[0], addition.type) for addition in top))
    assert all(len(addition.path) > 1 for addition in evolve(columns, second))
    assert evolve(choose_types(first), first) == ()
