"""Every command that an error, a finding or a check names is one that can be typed."""

from __future__ import annotations

import ast
import re
import shlex
from typing import TYPE_CHECKING, get_args

import click
import pytest
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from cli.app import sluice
from cli.listing import COMMANDS
from docs.pages.errors import CATALOGUE, PAGE, ROOT, entries
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.work import layout_named
from spark_jobs.schema.iceberg_types import check_columns, with_metadata_columns

if TYPE_CHECKING:
    from pathlib import Path

ROOMS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")
# As it is written in a text: the command, a group's command, and the options that follow at once.
WRITTEN = re.compile(r"\./sluice (?P<name>[a-z]+)(?: (?P<sub>list|publish|discard)\b)?")

# The same with its arguments, as far as they are no words of the sentence.
TYPED = re.compile(
    r"""\./sluice [a-z]+(?: (?:list|publish|discard)\b)?"""
    r"""(?: (?:--[a-z-]+|'[^']*'|"[^"]*"|\{\w+\}|\.{3}|[A-Z][A-Z:-]*\b))*"""
)
BY_LAUNCHER = {"test", "lint", "prove", "bench"}


def _parse(words: list[str]) -> None:
    """Have the command line take the words apart; raises ``click.UsageError`` for what it does not know."""
    name, *arguments = words
    context = click.Context(sluice)
    command = sluice.get_command(context, name)
    assert command is not None, name
    if isinstance(command, click.Group):
        command = command.get_command(context, arguments.pop(0))
    assert command is not None, words
    command.make_parser(click.Context(command)).parse_args(arguments)


def _made() -> list[ast.Call]:
    """Every call of ``mends`` in the product."""
    return [
        node
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "mends"
    ]


@pytest.mark.parametrize("name", get_args(mends.CommandName))
def test_every_name_is_a_command(name: mends.CommandName) -> None:
    """A command that is renamed is renamed in what people are told to type."""
    _parse(shlex.split(mends.command(name, "orders"))[1:])


@pytest.mark.parametrize(
    "name", sorted(name for name, texts in entries().items() if "./sluice " in str(texts))
)
def test_what_an_error_says_to_type_can_be_typed(name: str) -> None:
    """Command, arguments and options; what varies stands as 1."""
    for text in (entries()[name][part] for part in ("message", "hint")):
        for written in TYPED.findall(text):
            words = [re.sub(r"\{\w+\}", "1", word) for word in shlex.split(written)[1:]]
            if words[0] != "1" and words[0] not in BY_LAUNCHER:
                _parse(words)


def test_every_option_is_one_of_its_command() -> None:
    """Also those that only one place adds; what varies stands as 1."""
    calls = [call for call in _made() if ast.unparse(call.func) in ("mends.act", "mends.command")]
    calls = [call for call in calls if isinstance(call.args[0], ast.Constant)]
    assert len(calls) > 30
    for call in calls:
        texts = [
            re.sub(r"\{[^}]*\}", "1", ast.unparse(argument).lstrip("f").strip("'\""))
            for argument in call.args
        ]
        options = [word for text in texts[2:] for word in text.split() if word.startswith("--")]
        name = str(call.args[0].value)  # type: ignore[attr-defined]
        _parse([*name.split(), "orders", *(part for option in options for part in _with_value(name, option))])


def test_what_reads_offsets_again_can_be_typed() -> None:
    """Each range an option of its own; none of a mirror, which is made anew as a whole."""
    of_rows = layout_named("flat").read_again("orders", "0:1-2 1:3-4")
    assert of_rows.startswith("./sluice replay orders --range 0:1-2 --range 1:3-4")
    of_mirror = layout_named("mirror").read_again("orders", "0:1-2")
    assert of_mirror.startswith("./sluice rebuild orders --reason")
    for said in (of_rows, of_mirror):
        _parse(shlex.split(said)[1:])


@pytest.mark.parametrize("layout", ["flat", "changes", "mirror"])
def test_a_clash_names_no_command_that_the_layout_refuses(layout: str) -> None:
    """Types of rows are changed by `retype`, a mirror is made anew; a table of changes has neither."""
    (schema, location) = (with_metadata_columns(Schema(NestedField(99, "id", LongType()))), "file:///none")
    metadata = new_table_metadata(schema, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, location)
    table = Table(("l", "a"), metadata, location, load_file_io({}), NoopCatalog("none"))
    with pytest.raises(ConfigError) as caught:
        check_columns(table, {"id": "string"}, pipeline="a", layout=layout_named(layout))
    named = {match["name"] for match in WRITTEN.finditer(caught.value.hint)}
    assert named == {"flat": {"retype"}, "mirror": {"rebuild"}, "changes": set()}[layout]


def test_what_texts_name_exists() -> None:
    """In sources, the catalogue of errors and its page, also where a text is written without ``mends``."""
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    known = {entry.name for entry in COMMANDS} | BY_LAUNCHER
    found = [match for path in [*sources, CATALOGUE, PAGE] for match in _written(path)]
    assert len(found) > 100
    assert {match["name"] for match in found} <= known
    assert {match["name"] for match in found if match["sub"]} == {"held"}


def _written(path: Path) -> list[re.Match[str]]:
    return list(WRITTEN.finditer(path.read_text(encoding="utf-8")))


def _with_value(name: str, option: str) -> list[str]:
    command = sluice.get_command(click.Context(sluice), name)
    assert command is not None
    flags = {flag for each in command.params if getattr(each, "is_flag", False) for flag in each.opts}
    return [option] if option in flags else [option, "1"]
