"""Paths of set-up: locks in the project, installed files in the user's cache folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "bootstrap"
UV_LOCK = LOCKS / "uv.txt"
BUILD_LOCK = LOCKS / "build.txt"
WHEEL = LOCKS / "wheel.py"
JARS_LOCK = ROOT / "servers" / "jars.lock"
TEST_JARS_LOCK = ROOT / "prove" / "lab" / "jars-test.lock"
BENCH_JARS_LOCK = ROOT / "bench" / "jars-connect.lock"
# Holds a PyIceberg configuration that says nothing, found before any of the user's.
PYICEBERG_HOME = LOCKS / "pyiceberg"
# Packages that a configuration may ask for beside the locked set: `extras:`, each with a lock of its own.
EXTRAS = tuple(sorted(path.stem.removeprefix("extra-") for path in LOCKS.glob("extra-*.txt")))


class Places:
    """Paths of one clone. The environment is its own; its files are links into the shared cache."""

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


def lock_path(dependency_set: str) -> Path:
    """Return the path of the lock of ``run``, ``dev`` or an extra."""
    names = {"run": "requirements.txt", "dev": "requirements-dev.txt"}
    return LOCKS / names.get(dependency_set, f"extra-{dependency_set}.txt")


def lock_key(dependency_set: str) -> str:
    """Return the stamp of an environment with this set."""
    content = b"".join(map(Path.read_bytes, (lock_path(dependency_set), BUILD_LOCK, WHEEL, JARS_LOCK)))
    return f"{dependency_set} {hashlib.sha256(content).hexdigest()[:16]}"
