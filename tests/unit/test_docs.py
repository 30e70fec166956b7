"""README, pages of docs and messages: what they link to exists, what they show works, and they are short."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent, indent

import click
import pytest
import yaml
from pydantic import BaseModel

from cli.app import sluice
from cli.listing import Entry
from docs.pages import commands as command_docs
from servers.docs_page import anchor_of
from spark_jobs.config.file import read_config
from spark_jobs.config.file_models import WrittenFile, WrittenPipeline
from tests.support.prose import (
    CATALOGUE,
    DOCS,
    ROOT,
    pages,
    words,
)

OF_THE_ROOT = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]
LIMITS = {
    "README.md": 900,
    "docs": 60_000,
    "docs/explanation/performance.md": 900,
    "docs/explanation/reliability.md": 900,
}
GLOSSARY = DOCS / "reference" / "glossary.md"
TERMS = 40
FENCED = re.compile(r"^( *)```([\w-]*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# A configuration around a block that shows a part of one.
ORDERS = {"topic": "orders", "table": "lake.orders"}
AROUND = {
    "version": "version: 1",
    "kafka": "kafka: {bootstrap.servers: 'broker:9092'}",
    "registries": "registries: {main: {url: 'http://registry:8081'}}",
    "pipelines": "pipelines: {orders: {topic: orders, table: lake.orders}}",
}


def relative(path: Path) -> str:
    """A page's name in a failure."""
    return path.relative_to(ROOT).as_posix()


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Yield the fenced blocks of all pages in these languages, each with its page and line."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for found in FENCED.finditer(text):
            if found[2] in languages:
                line = text[: found.start()].count("\n") + 1
                body = re.sub(rf"^{found[1]}", "", found[3], flags=re.MULTILINE)
                yield f"{relative(page)}:{line}", body


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {anchor_of(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")) for title in titles}


@pytest.mark.parametrize("page", [*OF_THE_ROOT, *sorted(DOCS.rglob("*.md"))], ids=relative)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Those to other pages, pictures and files of the project; other hosts are not asked."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\((?![a-z]+:)([^()\s#]*)(?:#([^()\s]*))?\)", text)
    links += [(source, "") for source in re.findall(r'(?:src|srcset)="(?![a-z]+:)([^"]+)"', text)]
    wrong = []
    for target, anchor in links:
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            wrong.append(f"{target}#{anchor}")
    assert not wrong


def test_blocks_of_data_can_be_read() -> None:
    """JSON and TOML as they are, except for an ellipsis; YAML of Dagster and others."""
    for _, text in blocks("json"):
        json.loads("[" + re.sub(r"}\s*{", "},{", text) + "]")
    for _, text in blocks("toml"):
        tomllib.loads(text)
    for _, text in blocks("yaml"):
        yaml.safe_load(text)


def as_configuration(text: str) -> str | None:
    """Return a whole configuration that has the block in its place; None where it is of another program."""
    block = yaml.safe_load(text)
    if set(block) <= names_of(WrittenFile):
        return "\n".join([text, *(line for key, line in AROUND.items() if key not in block)])
    around = "\n".join(line for key, line in AROUND.items() if key != "pipelines")
    if set(block) <= names_of(WrittenPipeline):
        own = {"topic", "table"} - set(block)
        missing = "".join(f"    {key}: {value}\n" for key, value in ORDERS.items() if key in own)
        return f"{around}\npipelines:\n  orders:\n{missing}{indent(dedent(text), '    ')}"
    if all(isinstance(each, dict) and "topic" in each for each in block.values()):
        return f"{around}\npipelines:\n{indent(dedent(text), '  ')}"
    return None


def names_of(model: type[BaseModel]) -> set[str]:
    """The keys of a section."""
    return {field.alias or name for name, field in model.model_fields.items()}


@pytest.mark.parametrize(("place", "text"), list(blocks("yaml")), ids=lambda value: value.split("\n")[0])
def test_blocks_of_configuration_are_valid(place: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``validate`` would find in each; a block with some keys is completed."""
    whole = as_configuration(text)
    if whole is None:
        assert place.startswith("docs/how-to/"), "a block of another program"
        return
    monkeypatch.setenv("SLUICE_CONFIG_YAML", whole)
    assert [str(problem) for problem in read_config().problems] == []


def typed() -> Iterator[tuple[str, str]]:
    """Yield every command line of Sluice in a block or in code between words, with its page."""
    for page in [*pages(), ROOT / CATALOGUE]:
        text = page.read_text(encoding="utf-8")
        for line in re.findall(r"(?:^|[`\s(])\./sluice ([^\n`]+)", text):
            yield relative(page), line


def known(line: str) -> str:
    """Return what is wrong with a command line: a command or an option that does not exist; else nothing."""
    line = re.sub(r"'[^']*'|\"[^\"]*\"|\{[^}]*\}", "VALUE", line.replace("\\|", "-"))
    parts = re.split(r"\s#|[|;&>)]|[.,:](?:\s|$)", line)[0].split()
    context = click.Context(sluice)
    name = parts[0] if parts else ""
    if not re.fullmatch("[a-z]+", name) or name == "test":
        return ""
    if sluice.get_command(context, name) is None:
        return f"no command {name}"
    command = command_docs._defined(Entry("", name, ""), context)
    if isinstance(command, click.Group) and len(parts) > 1 and re.fullmatch("[a-z]+", parts[1]):
        inner = command.get_command(context, parts[1])
        if inner is None:
            return f"no command {name} {parts[1]}"
        command = inner
    taken = {"--help", *(option for each in command.params for option in (*each.opts, *each.secondary_opts))}
    asked = {found[0] for part in parts if (found := re.match("--[a-z][a-z-]*", part.strip("[(")))}
    return f"{name} has no {', '.join(asked - taken)}" if asked - taken else ""


def test_commands_and_options_exist() -> None:
    """In every page and in the errors' messages and hints."""
    assert [(page, wrong) for page, line in typed() if (wrong := known(line))] == []


def test_pages_are_short() -> None:
    """Words of README, of the two pages that grow and of all of docs."""
    count = {relative(page): words(page.read_text(encoding="utf-8")) for page in pages()}
    count["docs"] = sum(number for page, number in count.items() if page.startswith("docs/"))
    assert {page: count[page] for page, limit in LIMITS.items() if count[page] > limit} == {}


def test_the_glossary_is_short() -> None:
    """A term is a row of its table."""
    rows = re.findall(r"^\| (?!term |-)", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert 0 < len(rows) <= TERMS
