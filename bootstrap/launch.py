"""The launcher's one decision: what must be installed for a command, and what runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from bootstrap.environments import child_environment
from bootstrap.extras import extras_asked_for
from bootstrap.install import SetupError, ensure_installed, fetch_jars, is_installed, keep
from bootstrap.places import BENCH_JARS_LOCK, JARS_LOCK, ROOT, TEST_JARS_LOCK, Places, user_cache
from bootstrap.without_setup import answer

SOURCES = (
    *("sluice", "bootstrap", "cli", "servers", "orchestration", "assets", "resources"),
    *("gateway", "serving", "spark_jobs", "bench", "prove", "docs", "tests"),
)

# The whole suite in four processes, since each waits for half of its time, a file at a time;
# tests/support/run_order.py lets long ones begin first. A process that dies ends the run: with another in its
# place pytest-xdist would wait for the rest of its file for ever.
SPREAD = (
    *("-n", "4", "--max-worker-restart", "0", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("--durations", "25"),
)

LINT = (
    ("format", ("ruff", "format", "--check", "--quiet", *SOURCES)),
    ("lint", ("ruff", "check", "--quiet", *SOURCES)),
    ("types", ("mypy",)),
    ("imports", ("lint-imports", "--no-cache")),
    ("unit and property tests", ("pytest", "-q", "tests/unit", "tests/property")),
)


def launch(arguments: list[str]) -> int:
    """Set up what the command needs and run it; returns only when it did not become the command."""
    command = arguments[0] if arguments else "--help"
    is_help = bool({"-h", "--help"} & set(arguments))
    places = Places(user_cache())
    needed = "dev" if command in {"test", "lint", "bench", "prove"} else "run"
    if not is_installed(places, needed) and (said := answer(arguments)):
        print(said.text, file=sys.stderr if said.exit_code else sys.stdout)
        return said.exit_code
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
    if command == "up":
        keep(places)
    environment = child_environment(os.environ, places)
    if arguments == ["lint"]:
        return lint(places, environment)
    if command == "test" and not is_help:
        os.chdir(ROOT)
        names_some = any(argument.startswith("tests") for argument in arguments)
        spread = () if names_some else SPREAD
        return _become(places, ["-m", "pytest", *spread, *arguments[1:]], environment)
    # -P: a `cli` or `assets` folder in the user's working directory is not ours.
    return _become(places, ["-P", "-m", "cli", *(arguments or ["--help"])], environment)


def build_image(arguments: list[str]) -> int:
    """Set up and become what writes the image; returns only when that did not succeed."""
    places = Places(user_cache())
    try:
        ensure_installed(places, "run")
    except SetupError as error:
        print(error, file=sys.stderr)
        return 69
    return _become(places, ["-P", "-m", "bootstrap.image", *arguments], child_environment(os.environ, places))


def _fetch_for(command: str, arguments: list[str], places: Places) -> None:
    if command in {"test", "prove"} or (command == "demo" and "--formats" in arguments):
        fetch_jars(places, JARS_LOCK, "registry")
    if command in {"test", "prove"}:
        fetch_jars(places, TEST_JARS_LOCK)
    if command in {"test", "bench"}:
        fetch_jars(places, BENCH_JARS_LOCK)


def lint(places: Places, environment: Mapping[str, str]) -> int:
    """Run every check, however the others end, and name those that failed."""
    failed = [name for name, command in LINT if not _passes(places, name, command, environment)]
    print(f"lint: {', '.join(failed)} failed" if failed else "lint: all is well", flush=True)
    return 1 if failed else 0


def _passes(places: Places, name: str, command: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    print(f"lint: {name}", flush=True)
    tool, *arguments = command
    present = [argument for argument in arguments if argument not in SOURCES or (ROOT / argument).exists()]
    outcome = subprocess.run(
        [places.python.parent / tool, *present], cwd=ROOT, env=dict(environment), check=False
    )
    return outcome.returncode == 0


def _become(places: Places, arguments: list[str], environment: Mapping[str, str]) -> int:
    sys.stdout.flush()
    os.execve(places.python, [str(places.python), *arguments], dict(environment))  # noqa: S606  (no shell wanted)
