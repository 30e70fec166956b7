"""The errors' catalogue, the calls that make its errors and docs/reference/errors.md are of one piece."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter

import pytest
from dagster import Failure

from assets.pipeline_asset import named_failures
from cli.output import error_lines
from docs.pages.errors import PAGE, ROOT, entries, render
from spark_jobs.protocol.errors import KINDS, ConfigError, _catalogue, fault
from spark_jobs.protocol.work import LAYOUTS, layout_named

ROOMS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")
ANCHOR = re.compile(r"docs/reference/errors\.md#(\S+)")
ENTRIES = entries()
COORDINATES = _catalogue()[1]
# What makes an error of a name in the catalogue, and what stands before the name there.
MAKERS = {"fault": "", **dict.fromkeys(("mistake", "wrong_value", "only"), "bad-config.")}


def test_committed_page_is_what_the_catalogue_says() -> None:
    """An error cannot be added or reworded without its page: ``python -m docs.pages.errors`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == render()


def test_every_code_has_one_anchor() -> None:
    """Two headings of one name would lead a reader nowhere."""
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == sorted({name.partition(".")[0] for name in ENTRIES})


def test_every_error_says_what_to_do() -> None:
    """An error without a message or a hint leaves a person alone with it."""
    for name, texts in ENTRIES.items():
        assert texts["kind"] in KINDS, name
        assert texts["message"].strip(), name
        assert texts["hint"].strip(), name


def test_every_error_is_made_somewhere() -> None:
    """What is told no more leaves the catalogue; a name that it does not have is told nowhere."""
    assert {name for _, call in _calls() for name in _names(call)} == set(ENTRIES)


def test_no_error_is_made_otherwise() -> None:
    """A text beside a ``raise`` would be in no catalogue, and on no page."""
    assert [where for where, call in _calls(*KINDS) if call.args or call.keywords] == []


def test_every_place_is_given() -> None:
    """A call gives what its texts name, and nothing that is neither in a text nor a coordinate."""
    for where, call in _calls():
        given = {keyword.arg for keyword in call.keywords if keyword.arg}
        if call.func.id == "only":  # type: ignore[attr-defined]
            given = set() if "is_shown" in given else {"text"}
        unpacked = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None]
        others = {"pipeline", "table"} if unpacked and unpacked[0].endswith(".where") else COORDINATES
        named = [_places(name) for name in _names(call)]
        assert all(places <= given | (others if unpacked else set()) for places in named), where
        assert given <= set().union(COORDINATES, *named), where


@pytest.mark.parametrize("name", ["no-such-error", "topic-recreated", "topic-recreated.no-such-way"])
def test_a_mistake_in_a_call_hides_no_error(name: str) -> None:
    """Without its entry or its places an error is told all the same, with what was given."""
    error = fault(name, evidence="other id", topic="clicks")
    assert error.code == name.partition(".")[0]
    assert error.where["topic"] == "clicks"
    assert "other id" in fault(name, evidenc="other id").message
    if "such" not in name:
        assert error.message == "topic clicks was deleted and created again: other id"


def test_printed_anchors_resolve() -> None:
    """What the command line points at is a heading whose anchor is the code itself."""
    for code in sorted({name.partition(".")[0] for name in ENTRIES}):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code), "the anchor of a heading would be another text"
        printed = "\n".join(error_lines(ConfigError("message", code=code, hint="hint")))
        assert ANCHOR.findall(printed) == [code]
    assert (ROOT / "docs" / "reference" / "errors.md").samefile(PAGE)


def test_anchor_in_the_ui_is_the_printed_one() -> None:
    """A failed run's metadata leads to the same place as the command line."""
    with pytest.raises(Failure) as caught, named_failures():
        raise ConfigError("message", code="some-code", hint="hint")
    assert ANCHOR.findall(str(caught.value.metadata["documentation"].value)) == ["some-code"]


def _calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call of these, or of what makes errors, in the product, and where it is."""
    names = names or tuple(MAKERS)
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                if (
                    is_call
                    and node.func.id in names
                    and path != ROOT / "spark_jobs" / "config" / "problems.py"
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def _names(call: ast.Call) -> set[str]:
    """The names that a call may give: one text, or one of each side of a condition, or each layout's."""
    texts = [call.args[0]]
    while any(isinstance(text, ast.IfExp) for text in texts):
        texts = [side for t in texts for side in ((t.body, t.orelse) if isinstance(t, ast.IfExp) else (t,))]
    asked = [text.attr for text in texts if ast.unparse(text).startswith("layout.")]  # type: ignore[attr-defined]
    before = MAKERS[call.func.id]  # type: ignore[attr-defined]
    constants = [f"{before}{text.value}" for text in texts if isinstance(text, ast.Constant)]
    assert len(asked) + len(constants) == len(texts), ast.unparse(call)
    return {*constants, *(getattr(layout_named(layout), name) for layout in LAYOUTS for name in asked)}


def _places(name: str) -> set[str]:
    texts = ENTRIES.get(name, {"message": "", "hint": ""})
    return {
        place for text in ("message", "hint") for _, place, _, _ in Formatter().parse(texts[text]) if place
    }
