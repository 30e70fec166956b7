"""Commands in the hints of errors, findings and checks. Pure."""

from __future__ import annotations

from typing import Literal

CommandName = Literal[
    "audit",
    "check",
    "drain",
    "held list",
    "history",
    "preview",
    "query",
    "rebuild",
    "recover",
    "redrive",
    "repartition",
    "replay",
    "resume",
    "retype",
    "rollback",
    "skip",
    "source",
    "upkeep",
]


def command(name: CommandName, pipeline: str, *arguments: str) -> str:
    """Return the command as typed; ``pipeline`` is ``PIPELINE`` where the error does not know it."""
    return " ".join(("./sluice", name, pipeline, *arguments))


def act(name: CommandName, pipeline: str, *arguments: str, quote: str = "'") -> str:
    """Return the command of an act, which requires a reason."""
    return command(name, pipeline, *arguments, f"--reason {quote}...{quote}")


def resume(pipeline: str) -> str:
    """Return the command that lets a paused pipeline drain again."""
    return act("resume", pipeline, quote='"')
