"""Answers that need no installation: version, ``--help``, unknown commands."""

from __future__ import annotations

import re
from itertools import groupby

from bootstrap.places import ROOT
from cli.listing import COMMANDS, NEXT, SUMMARY, no_such_command
from spark_jobs import __version__

PAGE = ROOT / "docs" / "reference" / "commands.md"


def answer(arguments: list[str]) -> tuple[str, int] | None:
    """Return the output and exit code of a command line; None if it needs set-up.

    The text differs from the installed ``--help`` in its layout for a terminal's width.
    """
    name = next((argument for argument in arguments if not argument.startswith("-")), None)
    is_help = not arguments or bool({"-h", "--help"} & set(arguments))
    if name is None:
        text = f"sluice {__version__}" if "--version" in arguments else _help() if is_help else ""
        return (text, 0) if text else None
    if name != arguments[0]:
        return None
    if name not in {entry.name for entry in COMMANDS}:
        return f"{no_such_command(name)} ./sluice --help lists them.", 2
    return (_help_of(name), 0) if is_help else None


def _help() -> str:
    width = max(len(entry.name) for entry in COMMANDS)
    parts = ["Usage: ./sluice [OPTIONS] COMMAND [ARGS]...", SUMMARY]
    for section, entries in groupby(COMMANDS, lambda entry: entry.section):
        parts.append("\n".join([f"{section}:", *(f"  {e.name:<{width}}  {e.line}" for e in entries)]))
    return "\n\n".join([*parts, NEXT])


def _help_of(command: str) -> str:
    """Return the command's section of the generated page as plain text."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n### {command}\n")
    text = rest.partition("\n## ")[0].partition("\n### ")[0].strip().replace("```\n", "").replace("\n```", "")
    text = text.replace("| option | meaning |\n|---|---|", "Options:")
    text = re.sub(r"^\| `(.+)` \| (.+) \|$", r"  \1\n      \2", text, flags=re.MULTILINE)
    return text.replace("\\|", "|")
