"""The launcher's one decision: what must be installed for a command, and what runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from bootstrap.install import SetupError, ensure_installed, fetch_jars, is_installed
from bootstrap.places import (
    BENCH_JARS_LOCK,
    EXTRAS,
    JARS_LOCK,
    ROOT,
    TEST_JARS_LOCK,
    Places,
    child_environment,
)
from cli.listing import COMMANDS, NEXT, SUMMARY, no_such_command
from servers.cache import user_cache
from spark_jobs import __version__

# The whole suite in four processes, since each waits for half of its time, a file at a time;
# tests/support/run_order.py lets long ones begin first. A process that dies ends the run: with another in its
# place pytest-xdist would wait for the rest of its file for ever.
SPREAD = (
    *("-n", "4", "--max-worker-restart", "0", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("--durations", "25"),
)

LINT = (
    "ruff format --check --quiet",
    "ruff check --quiet",
    "mypy",
    "lint-imports --no-cache",
    "pytest -q tests/unit tests/property",
)

# As it is found with no more than Python.
_EXTRAS = re.compile(r"^extras:[ \t]*(\[[^\]]*\]|[^\n]*(?:\n[ \t]*-[^\n]*)*)", re.MULTILINE)


def launch(arguments: list[str]) -> int:
    """Set up what the command needs and run it; returns only when it did not become the command."""
    command = arguments[0] if arguments else "--help"
    is_help = bool({"-h", "--help"} & set(arguments))
    places = Places(user_cache())
    needed = "dev" if command in {"test", "lint", "bench", "prove"} else "run"
    if not is_installed(places, needed) and (said := answer(arguments)):
        text, exit_code = said
        print(text, file=sys.stderr if exit_code else sys.stdout)
        return exit_code
    try:
        ensure_installed(places, needed, () if is_help else extras_asked_for(arguments))
        if not is_help:
            _fetch_for(command, arguments, places)
    except (SetupError, OSError) as error:
        hint = "" if isinstance(error, SetupError) else ". XDG_CACHE_HOME names another cache folder."
        print(f"{error}{hint}", file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        print("\nSet-up was interrupted; run the command again to go on.", file=sys.stderr)
        return 130
    environment = child_environment(os.environ, places)
    if arguments == ["lint"]:
        return lint(environment)
    if command == "test" and not is_help:
        os.chdir(ROOT)
        names_some = any(argument.startswith("tests") for argument in arguments)
        spread = () if names_some else SPREAD
        return _become(places, ["-m", "pytest", *spread, *arguments[1:]], environment)
    # -P: a `cli` or `assets` folder in the user's working directory is not ours.
    return _become(places, ["-P", "-m", "cli", *(arguments or ["--help"])], environment)


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
    found = _EXTRAS.search("\n".join(line for line in lines if line))
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


def _fetch_for(command: str, arguments: list[str], places: Places) -> None:
    if command in {"test", "prove"} or (command == "demo" and "--formats" in arguments):
        fetch_jars(places, JARS_LOCK, "registry")
    if command in {"test", "prove"}:
        fetch_jars(places, TEST_JARS_LOCK)
    if command in {"test", "bench"}:
        fetch_jars(places, BENCH_JARS_LOCK)


def lint(environment: Mapping[str, str]) -> int:
    """Run every check, however the others end, and name those that failed."""
    failed = []
    for check in LINT:
        print(f"lint: {check}", flush=True)
        if subprocess.run(check.split(), cwd=ROOT, env=environment, check=False).returncode:
            failed.append(check)
    print(f"lint: {', '.join(failed)} failed" if failed else "lint: all is well", flush=True)
    return 1 if failed else 0


def _become(places: Places, arguments: list[str], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    os.execve(places.python, [str(places.python), *arguments], dict(environment))  # noqa: S606  (no shell wanted)


# What can be said before anything is installed: the version, ``--help``, that no command has that name.


PAGE = ROOT / "docs" / "COMMANDS.md"


def answer(arguments: list[str]) -> tuple[str, int] | None:
    """Return what the command line says by itself, and the exit code; None for one that needs set-up.

    In other words than the environment's own ``--help`` where that is laid out for a terminal's width.
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
    """Return the command's part of the page that is made from every command's ``--help``, as plain text."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"\n### {command}\n")
    text = rest.partition("\n## ")[0].partition("\n### ")[0].strip().replace("```\n", "").replace("\n```", "")
    text = text.replace("| option | meaning |\n|---|---|", "Options:")
    text = re.sub(r"^\| `(.+)` \| (.+) \|$", r"  \1\n      \2", text, flags=re.MULTILINE)
    return text.replace("\\|", "|")
