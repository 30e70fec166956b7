"""Where set-up reads and writes, and what a command sees of the user's environment."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
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


def lock_path(dependency_set: str) -> Path:
    """Return the lock of ``run`` or ``dev`` dependencies, or of an extra."""
    names = {"run": "requirements.txt", "dev": "requirements-dev.txt"}
    return LOCKS / names.get(dependency_set, f"extra-{dependency_set}.txt")


def lock_key(dependency_set: str) -> str:
    """Return what the stamp says when the environment holds this set."""
    content = b"".join(map(Path.read_bytes, (lock_path(dependency_set), BUILD_LOCK, WHEEL, JARS_LOCK)))
    return f"{dependency_set} {hashlib.sha256(content).hexdigest()[:16]}"


# What a command sees of the user's environment: no other project's Spark, Python, Dagster or PyIceberg.
#
# And what set-up's tools are told of the user's package index, proxy and certificates: pip's own settings
# count, wherever the user keeps them, as one place to name a mirror is enough.


FOREIGN_NAMES = frozenset(
    {
        *("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "DAGSTER_HOME"),
        *("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS"),
        *("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_SUBMIT_ARGS"),
        # Set in many images against litter in source folders. Ours goes elsewhere, and without it every start
        # compiles all that it imports again: twice the time.
        "PYTHONDONTWRITEBYTECODE",
    }
)
FOREIGN_PREFIX = "PYICEBERG_"
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
SECTIONS = ("global", "install", ":env:")  # the last one counts


def child_environment(user: Mapping[str, str], places: Places) -> dict[str, str]:
    """Return the variables for a command run in the clone's environment."""
    kept = {
        name: value
        for name, value in user.items()
        if name not in FOREIGN_NAMES and not name.upper().startswith(FOREIGN_PREFIX)
    }
    ours = {
        "PATH": f"{places.python.parent}:{user.get('PATH', '/usr/bin:/bin')}",
        "PYSPARK_PYTHON": str(places.python),
        "PYSPARK_DRIVER_PYTHON": str(places.python),
        "PYICEBERG_HOME": str(PYICEBERG_HOME),
        "XDG_CACHE_HOME": str(places.cache.parent),
        "PYTHONPYCACHEPREFIX": str(places.bytecode),
    }
    certificates = user.get("PIP_CERT") or user.get("SSL_CERT_FILE")
    if certificates and not user.get("REQUESTS_CA_BUNDLE"):
        ours["REQUESTS_CA_BUNDLE"] = certificates
    return kept | ours


def uv_variables(pip_settings: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that give uv what ``pip config list`` tells; the user's own uv ones win."""
    told = [line.partition("=")[::2] for line in pip_settings.splitlines() if "=" in line]
    wanted = {
        UV_NAMES[key]: " ".join(str(ast.literal_eval(value)).split())
        for wanted_section in SECTIONS
        for (section, _, key), value in ((name.rpartition("."), value) for name, value in told)
        if section == wanted_section and key in UV_NAMES
    }
    certificates = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if certificates:
        wanted.setdefault("SSL_CERT_FILE", certificates)
    if "UV_INDEX" in wanted:
        # pip looks into all indexes; hashes make that safe.
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in wanted.items() if not environment.get(name)}
