"""A watermark's text is read back as it was told, and two compare within one epoch only."""

from __future__ import annotations

import pytest

from spark_jobs.hot.watermark import Watermark, parse_offsets, parse_watermark
from spark_jobs.protocol.errors import ConfigError


@pytest.mark.parametrize("ends", [{}, {0: 0}, {3: 7, 0: 1234, 11: 9}])
def test_its_text_says_all_of_it(ends: dict[int, int]) -> None:
    """In the order of the partitions, whatever order it was made in."""
    marked = Watermark(2, 5, ends)
    assert parse_watermark(str(marked)) == marked
    assert str(Watermark(1, 0, {1: 88, 0: 1234})) == "1.0/0:1234,1:88"


@pytest.mark.parametrize(
    "text", ["", "1.0", "1/0:1", "1.0/0", "1.0/0:x", "1.0/0:-1", "1.0/a:1", "1.0/0:1;1:2"]
)
def test_what_is_none_is_refused(text: str) -> None:
    """With both forms in the hint."""
    with pytest.raises(ConfigError) as refused:
        parse_watermark(text)
    assert refused.value.code == "unreadable-watermark"
    with pytest.raises(ConfigError):
        parse_offsets(text or "0:")


@pytest.mark.parametrize("text", [f"0:{10**20}", f"0:{'9' * 5000}", f"{10**10}:1"])
def test_numbers_that_no_offset_has_are_refused(text: str) -> None:
    """Before anything is computed with them."""
    for read in (parse_offsets, lambda text: parse_watermark(f"1.0/{text}")):
        with pytest.raises(ConfigError, match="not a valid list of offsets"):
            read(text)


def test_it_reaches_what_lies_below_its_ends() -> None:
    """Of every partition; one that it does not know is at its beginning."""
    marked = Watermark(1, 0, {0: 5, 1: 7})
    assert marked.reaches({0: 5, 1: 6})
    assert not marked.reaches({0: 6})
    assert not marked.reaches({2: 1})
    assert marked.reaches({2: 0})
    assert [marked.is_of(Watermark(*other, {})) for other in ((1, 0), (2, 0), (1, 1))] == [True, False, False]
