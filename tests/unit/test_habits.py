"""Plain words: phrases to avoid in pages, messages and first docstring lines may only become fewer."""

from __future__ import annotations

import pytest

from tests.support.prose import allowed, counted, habits_of, plain


def test_phrases_to_avoid_become_no_more() -> None:
    """By file and phrase; `python -m tests.support.prose` writes lower counts."""
    limits = allowed()
    more = {
        f"{file}: {name}": (count, limits.get(file, {}).get(name, 0))
        for file, habits in counted().items()
        for name, count in habits.items()
        if count > limits.get(file, {}).get(name, 0)
    }
    assert not more, "found and allowed: tests/support/prose.py has the phrases"


@pytest.mark.parametrize(
    ("text", "habits"),
    [
        ("Return what the broker said.", {"say"}),
        ("Run `tell`. See [told](a.md).", {"tell"}),
        ("```\nnobody\n```\nDead letters are kept; other letters are not.", {"letters"}),
        ("It is no longer there.", set()),
        ("This is no JSON | beside it", {"is no", "beside"}),
        ("as many rows so many as", set()),
    ],
)
def test_a_phrase_is_found_in_prose_alone(text: str, habits: set[str]) -> None:
    """Code and targets of links are not prose."""
    assert set(habits_of(plain(text))) == habits
