"""The launcher: decides what to install for a command and how to run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from bootstrap.environments import child_environment
from bootstrap.install import SetupError, ensure_installed, fetch_jars, is_installed
from bootstrap.native import rebuild
from bootstrap.places import BENCH_JARS_LOCK, EXTRAS, JARS_LOCK, ROOT, TEST_JARS_LOCK, Places
from bootstrap.without_setup import answer
from servers.cache import user_cache

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
    """Install what the command needs and run it; return only if the process is not replaced."""
    command = arguments[0] if arguments else "--help"
    is_help = bool({"-h", "--help"} & set(arguments))
    places = Places(user_cache())
    # The site is built by tools for developers; a section is printed without them.
    builds_site = (
        command == "docs"
        and not is_help
        and all(
            argument.startswith("-") or before in {"--build", "--port"}
            for before, argument in pairwise(arguments)
        )
    )
    needed = "dev" if command in {"test", "lint", "bench", "prove"} or builds_site else "run"
    if not is_installed(places, needed) and (reply := answer(arguments)):
        text, exit_code = reply
        print(text, file=sys.stderr if exit_code else sys.stdout)
        return exit_code
    try:
        ensure_installed(places, needed, () if is_help else extras_asked_for(arguments))
        if not is_help:
            _fetch_for(command, arguments, places)
    except (SetupError, OSError) as error:
        hint = "" if isinstance(error, SetupError) else ". Set XDG_CACHE_HOME to use another cache folder."
        print(f"{error}{hint}", file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        print("\nSet-up was interrupted. Run the command again to continue.", file=sys.stderr)
        return 130
    environment = child_environment(os.environ, places)
    if arguments in (["lint"], ["native", "--build"]):
        return lint(environment) if command == "lint" else rebuild(places)
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
    """Return the extras that the command's configuration requires.

    Parsed without YAML library; extras missed here are named by the error where they are needed.
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
    """Return the path of the configuration file; None if a variable holds its text."""
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
    """Run every check even if one fails, and print those that failed."""
    failed = []
    for check in LINT:
        print(f"lint: {check}", flush=True)
        if subprocess.run(check.split(), cwd=ROOT, env=environment, check=False).returncode:
            failed.append(check)
    print(f"lint: {', '.join(failed)} failed" if failed else "lint: all checks passed", flush=True)
    return 1 if failed else 0


def _become(places: Places, arguments: list[str], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    os.execve(places.python, [str(places.python), *arguments], dict(environment))  # noqa: S606  (no shell wanted)
