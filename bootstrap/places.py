"""Where set-up reads and writes: locks in the project, everything it makes in the user's cache folder."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "bootstrap"
UV_LOCK = LOCKS / "uv.txt"
BUILD_LOCK = LOCKS / "build.txt"
JARS_LOCK = ROOT / "servers" / "jars.lock"
TEST_JARS_LOCK = ROOT / "prove" / "lab" / "jars-test.lock"
BENCH_JARS_LOCK = ROOT / "bench" / "jars-connect.lock"
RUN_JAR_SETS = ("kafka", "spark")


def user_cache() -> Path:
    """Return Sluice's part of the user's cache folder, shared by all clones."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "sluice"


@dataclass(frozen=True)
class Places:
    """One clone's places. The environment is the clone's own; its files are links into the shared cache."""

    cache: Path
    clone: Path = ROOT

    @property
    def packages(self) -> Path:
        """Return uv's cache; on the environment's file system, or files would be copied instead of linked."""
        return self.cache / "packages"

    @property
    def environment(self) -> Path:
        """Return the clone's Python environment."""
        return self.cache / "env" / hashlib.sha256(str(self.clone).encode()).hexdigest()[:12]

    @property
    def python(self) -> Path:
        """Return the environment's interpreter."""
        return self.environment / "bin" / "python"

    @property
    def bytecode(self) -> Path:
        """Compiled Python files, beside the sources of neither the clone nor the packages."""
        return self.environment / "bytecode"

    @property
    def stamp(self) -> Path:
        """Return the file that names the lock which the environment holds; written last."""
        return self.environment / "sluice-setup"

    @property
    def link(self) -> Path:
        """Return the environment as editors and people look for it."""
        return self.clone / ".venv"

    @property
    def pyiceberg_home(self) -> Path:
        """Holds a PyIceberg configuration that says nothing, found before any of the user's."""
        return self.environment / "pyiceberg"


def lock_path(dependency_set: str) -> Path:
    """Return the lock of ``run`` or ``dev`` dependencies."""
    return LOCKS / {"run": "requirements.txt", "dev": "requirements-dev.txt"}[dependency_set]


def lock_key(dependency_set: str) -> str:
    """Return what the stamp says when the environment holds this set."""
    content = lock_path(dependency_set).read_bytes() + BUILD_LOCK.read_bytes() + JARS_LOCK.read_bytes()
    return f"{dependency_set} {hashlib.sha256(content).hexdigest()[:16]}"
