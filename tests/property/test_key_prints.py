"""A key that is looked for is among those with its print, whatever the keys are and however they are held."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.hot.segment import print_of, prints_of

KEYS = st.lists(st.none() | st.binary(max_size=20) | st.sampled_from([b"", b"k", b"order-1", b"order-12"]))


@given(keys=KEYS, first=st.integers(0, 3))
def test_a_key_has_its_print_wherever_it_is(keys: list[bytes | None], first: int) -> None:
    """Short, empty or long, behind others, in a slice, as text, or as a dictionary."""
    in_bytes = pa.array([b"other", b"", *keys], pa.binary())
    text = pa.array([None if key is None else key.hex() for key in keys], pa.string())
    for held in (in_bytes, in_bytes.dictionary_encode(), text, text.dictionary_encode(), in_bytes[2:]):
        rest = held[first:]
        prints = prints_of(rest)
        assert len(prints) == len(rest)
        for key, there in zip(rest.to_pylist(), prints, strict=True):
            assert key is None or print_of(key) == there


def test_keys_that_are_counted_have_prints_of_their_own() -> None:
    """So that of many keys hardly another one is looked at."""
    counted = pa.array([f"customer-{number:06d}" for number in range(100_000)])
    assert len(set(prints_of(counted).tolist())) > 99_990
