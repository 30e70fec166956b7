"""docs/ERRORS.md is what the sources raise, and every reference to it leads somewhere."""

from __future__ import annotations

import ast
import re

import pytest
from dagster import Failure

from assets.failures import named_failures
from cli.output import error_lines
from docs.pages.errors import PAGE, ROOMS, ROOT, errors_in, raised_errors, render
from spark_jobs.protocol.errors import KINDS, ConfigError

ANCHOR = re.compile(r"docs/ERRORS\.md#(\S+)")


def test_committed_page_is_what_the_sources_raise() -> None:
    """An error cannot be added or reworded without its page: ``python -m docs.pages.errors`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_code_in_the_sources_has_one_anchor() -> None:
    """A code the generator does not see, or two headings of one name, would lead a reader nowhere."""
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(_codes_in_sources())


def test_every_error_says_what_to_do() -> None:
    """An error without a message or a hint leaves a person alone with it."""
    assert not [error for error in raised_errors() if not error.message.strip() or not error.hint.strip()]


def test_both_sides_of_a_condition_and_constants_are_found() -> None:
    """A code chosen by a condition has its own anchor and its own hint; constants appear as their text."""
    source = (
        'WHERE = "there"\nConfigError(f"no {x}", code="a" if x else "b", hint="do" if x else f"go {WHERE}")'
    )
    found = [(error.code, error.message, error.hint) for error in errors_in(ast.parse(source))]
    assert found == [("a", "no …", "do"), ("b", "no …", "go there")]


def test_printed_anchors_resolve() -> None:
    """What the command line points at is a heading whose anchor is the code itself."""
    for code in sorted({error.code for error in raised_errors()}):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code), "the anchor of a heading would be another text"
        printed = "\n".join(error_lines(ConfigError("message", code=code, hint="hint")))
        assert ANCHOR.findall(printed) == [code]
    assert (ROOT / "docs" / "ERRORS.md").samefile(PAGE)


def test_anchor_in_the_ui_is_the_printed_one() -> None:
    """A failed run's metadata leads to the same place as the command line."""
    with pytest.raises(Failure) as caught, named_failures():
        raise ConfigError("message", code="some-code", hint="hint")
    assert ANCHOR.findall(str(caught.value.metadata["described in"].value)) == ["some-code"]


def _codes_in_sources() -> set[str]:
    """Every literal given as ``code=`` to anything, however the call is written."""
    return {
        value.value
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _name(node) in KINDS
        for keyword in node.keywords
        if keyword.arg == "code"
        for value in ast.walk(keyword.value)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
