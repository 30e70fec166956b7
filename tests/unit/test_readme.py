"""The README: what it shows can be typed, is tested somewhere, and stays short."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from spark_jobs.config.file import load_config

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs/tutorial/first-pipeline.md").read_text(encoding="utf-8")
MOST_WORDS = 900
TUTORIALS_NAMES = {"orders": "first_orders", "broker:9092": "localhost:9092"}
RUN_BY_TEST_DEMO = ["./sluice", "demo"]
COLOUR = re.compile(r"#[0-9a-f]{6}")


def blocks(page: str, language: str) -> list[str]:
    """Return the page's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """Return the commands of the page's shell blocks, as words, without here-documents."""
    text = "\n".join(block for block in blocks(page, "sh") if "<<" not in block)
    return [words for line in text.splitlines() if (words := shlex.split(line, comments=True))]


def test_every_command_is_one_that_a_test_types() -> None:
    """The tutorial's, which a test runs from an empty home, or the demo."""
    typed = [*commands(TUTORIAL), RUN_BY_TEST_DEMO]
    beginnings = {tuple(words[:count]) for words in typed for count in range(1, len(words) + 1)}
    named = [[TUTORIALS_NAMES.get(word, word) for word in words] for words in commands(README)]
    assert [words for words in named if tuple(words) not in beginnings] == []


def test_the_recipes_are_a_valid_configuration(tmp_path: Path) -> None:
    """They can be pasted below ``version: 1``."""
    (recipes,) = blocks(README, "yaml")
    file = tmp_path / "sluice.yaml"
    file.write_text(f"version: 1\n{recipes}")
    config = load_config(file)
    assert [each.name for each in config.pipelines] == ["orders", "readings", "prices", "customers"]
    assert not config.problems


def test_the_lines_for_python_are_those_of_the_page_that_is_tested() -> None:
    """``tests/integration/test_served_catalog.py`` runs them from the page."""
    assert set(blocks(README, "python")) <= set(
        blocks((ROOT / "docs/how-to/read-tables.md").read_text(), "python")
    )


def test_it_is_short() -> None:
    """A reader decides in a minute."""
    assert sum(any(map(str.isalnum, word)) for word in README.split()) <= MOST_WORDS


@pytest.mark.parametrize("name", ["system"])
def test_a_picture_is_the_same_in_light_and_dark(name: str) -> None:
    """The two files differ in their colours alone."""
    light, dark = ((ROOT / f"docs/images/{name}-{mode}.svg").read_text() for mode in ("light", "dark"))
    assert light != dark
    assert COLOUR.sub("", light) == COLOUR.sub("", dark)
