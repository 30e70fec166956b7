"""Where set-up reads and writes: locks in the project, everything it makes in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "bootstrap"
UV_LOCK = LOCKS / "uv.txt"
BUILD_LOCK = LOCKS / "build.txt"
WHEEL = LOCKS / "wheel.py"
JARS_LOCK = ROOT / "servers" / "jars.lock"
TEST_JARS_LOCK = ROOT / "prove" / "lab" / "jars-test.lock"
BENCH_JARS_LOCK = ROOT / "bench" / "jars-connect.lock"
RUN_JAR_SETS = ("kafka", "spark")


def user_cache() -> Path:
    """Return Sluice's part of the user's cache folder, shared by all clones."""
    # The clone's own is for a container's user without HOME and without an entry in the list of users.
    base, home = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")  # noqa: PTH111
    return next(each for each in (Path(base), Path(home), ROOT / ".cache") if each.is_absolute()) / "sluice"


class Places:
    """One clone's places. The environment is the clone's own; its files are links into the shared cache."""

    def __init__(self, cache: Path, clone: Path = ROOT) -> None:
        self.cache = cache
        self.clone = clone
        # uv's cache; on the environment's file system, or files would be copied instead of linked.
        self.packages = cache / "packages"
        self.environment = cache / "env" / hashlib.sha256(str(clone).encode()).hexdigest()[:12]
        self.python = self.environment / "bin" / "python"
        # Compiled Python files, beside the sources of neither the clone nor the packages.
        self.bytecode = self.environment / "bytecode"
        # Names the lock which the environment holds; written last.
        self.stamp = self.environment / "sluice-setup"
        # The environment as editors and people look for it.
        self.link = clone / ".venv"
        # Holds a PyIceberg configuration that says nothing, found before any of the user's.
        self.pyiceberg_home = self.environment / "pyiceberg"


def lock_path(dependency_set: str) -> Path:
    """Return the lock of ``run`` or ``dev`` dependencies, or of an extra."""
    names = {"run": "requirements.txt", "dev": "requirements-dev.txt"}
    return LOCKS / names.get(dependency_set, f"extra-{dependency_set}.txt")


def lock_key(dependency_set: str) -> str:
    """Return what the stamp says when the environment holds this set."""
    content = b"".join(map(Path.read_bytes, (lock_path(dependency_set), BUILD_LOCK, WHEEL, JARS_LOCK)))
    return f"{dependency_set} {hashlib.sha256(content).hexdigest()[:16]}"
