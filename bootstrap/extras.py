"""Packages that a configuration asks for beside the locked set: `extras:`, each with a lock of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bootstrap.places import LOCKS

EXTRAS = tuple(sorted(path.stem.removeprefix("extra-") for path in LOCKS.glob("extra-*.txt")))
_NAMED = re.compile(r"^extras:[ \t]*(\[[^\]]*\]|[^\n]*(?:\n[ \t]*-[^\n]*)*)", re.MULTILINE)


def extras_asked_for(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Return what the configuration that the command reads asks for.

    Read with no more than Python: what is missed here is named where it is needed.
    """
    try:
        file = _file(arguments, environment)
        text = environment.get("SLUICE_CONFIG_YAML", "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    lines = (line.partition("#")[0].rstrip() for line in text.splitlines())
    found = _NAMED.search("\n".join(line for line in lines if line))
    words = re.findall(r"\w+", found[1]) if found else []
    return tuple(name for name in EXTRAS if name in words)


def _file(arguments: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """Return the configuration's file; None where a variable has its text."""
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=True):
        if argument == "--config":
            return Path(following)
        if argument.startswith("--config="):
            return Path(argument.removeprefix("--config="))
    if named := environment.get("SLUICE_CONFIG"):
        return Path(named)
    return None if environment.get("SLUICE_CONFIG_YAML") else Path("sluice.yaml")
