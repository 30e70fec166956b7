"""Installation of the clone's environment from the locks: once, safe to interrupt, one at a time.

pip runs straight from the wheel in this folder, because a system's Python may have neither pip nor ensurepip.
It brings uv, checked by hash; uv brings the rest, checked by hash.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from bootstrap.environments import child_environment, uv_variables
from bootstrap.places import BUILD_LOCK, EXTRAS, JARS_LOCK, LOCKS, UV_LOCK, Places, lock_key, lock_path
from servers.cache import exclusive

NETWORK_HINT = (
    "Set-up did not finish. Run the command again; finished downloads are kept. For a proxy or mirror, set\n"
    "HTTPS_PROXY, PIP_INDEX_URL and PIP_CERT, or use pip's configuration."
)

_MEGABYTES = {"run": 660, "dev": 770}


class SetupError(Exception):
    """Set-up cannot continue; the message is for the user."""


def ensure_installed(places: Places, dependency_set: str, extras: Collection[str] = ()) -> None:
    """Install the set and the extras into the environment; return at once if they are installed."""
    if is_installed(places, dependency_set, extras):
        # A new clone in the folder of an old one has the environment and no link. Commands run without it.
        if not places.link.exists():
            with suppress(OSError):
                _link(places)
        return
    places.cache.mkdir(parents=True, exist_ok=True)
    with exclusive(places.cache, lambda: say("Another set-up is running. Waiting for it to finish.")):
        if is_installed(places, dependency_set, extras):
            return
        # Who has the test tools, or an extra, keeps them when the lock changes.
        held, *others = (line.split(" ")[0] for line in _stamp(places) or [""])
        wanted = "dev" if held == "dev" else dependency_set
        kept = [extra for extra in EXTRAS if extra in {*extras, *others}]
        if is_installed(places, wanted):
            say(f"Installing the packages of `extras: [{', '.join(extras)}]`.")
        else:
            _announce(places, wanted)
        _install(places, wanted, kept)


def make_movable(places: Places, environment: Path) -> None:
    """Create a relocatable environment from the same locks, with Sluice as a wheel."""
    into, locks = ("--python", environment / "bin" / "python"), map(lock_path, ("run", *EXTRAS))
    _uv(places, "venv", "--quiet", "--relocatable", "--python", sys.executable, environment)
    _uv(places, "pip", "sync", "--quiet", *into, "--require-hashes", *locks)
    _uv(places, "pip", "install", "--quiet", *into, "--no-deps", places.clone)


def build_distributions(places: Places, folder: Path) -> None:
    """Build the sdist and, from it, the wheel into a folder."""
    _uv(
        places,
        "build",
        "--quiet",
        "--no-create-gitignore",
        "--python",
        sys.executable,
        "--out-dir",
        folder,
        places.clone,
    )


def fetch_tool(places: Places, lock: Path) -> Path:
    """Bring the one package of a lock into the cache, outside of any environment; return its folder."""
    folder = places.cache / "tools" / lock.read_text().split()[0].replace("==", "-")
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            into = ("--python", sys.executable, "--target", f"{draft}/tool")
            _uv(
                places,
                "pip",
                "install",
                "--quiet",
                *into,
                "--no-deps",
                "--require-hashes",
                "--requirement",
                lock,
            )
            Path(draft, "tool").rename(folder)
    return folder


def fetch_jars(places: Places, lock: Path, *set_names: str) -> None:
    """Fetch the sets of a jar lock (all if none is named) into the cache, unless they are there."""
    # What pip is told of proxies and certificates counts here too.
    environment = child_environment(os.environ | _pip_variables(), places)
    _run([places.python, "-P", "-m", "servers.jars", lock, *set_names], environment)


def is_installed(places: Places, dependency_set: str, extras: Collection[str] = ()) -> bool:
    """True if the environment has the locked set and extras; the larger set includes the smaller."""
    if not places.python.exists():
        return False
    larger = {"run": ("run", "dev"), "dev": ("dev",)}[dependency_set]
    held, *others = _stamp(places) or [""]
    return held in map(lock_key, larger) and {*map(lock_key, extras)} <= {*others}


def _stamp(places: Places) -> list[str]:
    """Return the lock keys of the installed set and extras."""
    try:
        return places.stamp.read_text().splitlines()
    except FileNotFoundError:
        return []


def _install(places: Places, dependency_set: str, extras: Sequence[str]) -> None:
    locked = (dependency_set, *extras)
    if places.stamp.exists():
        places.stamp.write_text("\n".join(f"{name} unfinished" for name in locked))
    if not places.python.exists():
        _uv(places, "venv", "--quiet", "--clear", "--python", sys.executable, places.environment)
    into = ("--python", places.python)
    _uv(places, "pip", "sync", *into, "--require-hashes", *map(lock_path, locked))
    _uv(places, "pip", "install", "--quiet", *into, "--no-deps", "--editable", places.clone)
    fetch_jars(places, JARS_LOCK, "kafka", "spark")
    _link(places)
    draft = places.stamp.with_suffix(".draft")
    draft.write_text("\n".join(map(lock_key, locked)))
    draft.replace(places.stamp)
    say("Set-up is done.\n")


def _uv(places: Places, *arguments: str | Path) -> None:
    """Run the locked uv, fetched by pip if needed, with the user's index and proxy."""
    version = UV_LOCK.read_text().split("==")[1].split()[0]
    folder = places.cache / "tools" / f"uv-{version}"
    if not (folder / "bin" / "uv").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
            command = [*_pip(), "install", "--quiet", "--root-user-action", "ignore", "--no-deps"]
            command += ["--only-binary", ":all:", "--require-hashes", "--target", f"{draft}/uv"]
            _run([*command, "--requirement", UV_LOCK], dict(os.environ))
            shutil.rmtree(folder, ignore_errors=True)
            Path(draft, "uv").rename(folder)
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    ours = {"UV_CACHE_DIR": str(places.packages), "UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1"}
    ours["UV_BUILD_CONSTRAINT"] = str(BUILD_LOCK)
    _run([folder / "bin" / "uv", *arguments], kept | _pip_variables() | ours, in_a_line=True)


def _pip() -> list[str | Path]:
    (wheel,) = LOCKS.glob("pip-*.whl")
    return [sys.executable, "-I", wheel / "pip", "--disable-pip-version-check"]


def _pip_variables() -> dict[str, str]:
    listing = subprocess.run([*_pip(), "config", "list"], capture_output=True, text=True, check=False).stdout
    return uv_variables(listing, os.environ)


def _run(command: list[str | Path], environment: dict[str, str], *, in_a_line: bool = False) -> None:
    typed, target = [str(part) for part in command], subprocess.PIPE if in_a_line else None
    with subprocess.Popen(typed, env=environment, stdout=sys.stderr, stderr=target, text=True) as running:
        lines = [_show(line) for line in running.stderr or ()]
    if running.returncode != 0:
        say("".join(lines))
        raise SetupError(NETWORK_HINT)


def _show(line: str) -> str:
    """Show uv's progress in one line of a terminal, with counts instead of package names."""
    is_count = " packages in " in line
    if sys.stderr.isatty() and not line.startswith(" "):
        print(f"\r\033[K{line.rstrip()}", end="\n" if is_count else "", file=sys.stderr, flush=True)
    elif is_count:
        say(line.rstrip())
    return line


def _link(places: Places) -> None:
    """Link the clone to its environment, unless its link is valid: a running `up` may use that one."""
    if not places.link.exists():
        places.link.unlink(missing_ok=True)
        places.link.symlink_to(places.environment)
    elif places.link.is_symlink() and places.link.readlink() != places.environment:
        say(f"{places.link} still links to {places.link.readlink()}. To link it to the new environment, run:")
        say(f"  ln -sfn {places.environment} {places.link}")


def _announce(places: Places, dependency_set: str) -> None:
    count = sum("==" in line for line in lock_path(dependency_set).read_text().splitlines())
    tools = " and test tools" if dependency_set == "dev" else ""
    say(
        "Setting up Sluice. This happens once.\n"
        f"  download     {count} Python packages{tools}, {_MEGABYTES[dependency_set]} MB (PySpark: 430 MB)\n"
        "               jars of Kafka and Iceberg, 106 MB\n"
        f"  cache        {places.cache} (about 3 GB unpacked, shared by all clones)\n"
        f"  environment  {places.link}, a link into the cache\n"
        "  To uninstall, delete the cache folder and the link. Nothing is installed elsewhere."
    )


def say(text: str) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr, flush=True)
