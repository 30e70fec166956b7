"""Keys of other fields are found by a pattern, and each is what parsing it says."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.mirror.keys import fields_of, first_of_others

_NAMES = st.sampled_from(["id", "a b", 'quo"te', "é", "x.y", "a,b"])
_ITEMS = st.one_of(
    st.integers(), st.text(max_size=4), st.floats(), st.booleans(), st.none(), st.lists(st.integers())
)
_OBJECTS = st.dictionaries(_NAMES, _ITEMS, max_size=3).map(
    lambda key: json.dumps(key, separators=(",", ":"), ensure_ascii=False)
)
_TEXTS = st.sampled_from(
    ["", "ord-1", " {}", "{", '{"id":01}', '{"id":x}', '{"id":1}x', '{"id":1,"id":2}', "[1]"]
)


@given(st.lists(st.one_of(_OBJECTS, _TEXTS), min_size=1, max_size=6))
@example(['{"id":1}', '{"id":"1"}', '{"id":null}', '{"id":1,"a b":2}'])
@example(['{"id":1}', '{"id":1}\n'])
def test_the_first_key_of_other_fields_is_found(keys: list[str]) -> None:
    """For whatever fields the first of them has; a text has none."""
    fields = fields_of(keys[0])
    naive = next((at for at, key in enumerate(keys) if fields_of(key) != fields), None)
    assert first_of_others(pa.chunked_array([pa.array(keys)]), fields) == naive
