"""What a server that Sluice starts sees of the user's environment: no foreign Spark, Python or Java."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.config.redaction import SPARKS_VARIABLES

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_FOREIGN_PREFIXES = (*SPARKS_VARIABLES, "HADOOP_", "YARN_", "HIVE_", "DAGSTER_", "PYICEBERG_")
_FOREIGN_NAMES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"),
        *("CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"),
    }
)


def sluice_environment(java_home: Path, sluice_home: Path, config_path: Path | None) -> dict[str, str]:
    """Return what a process of Sluice's own sees: this state folder and configuration, not the user's.

    ``config_path`` None means the text of ``SLUICE_CONFIG_YAML``, without one the built-in defaults.
    """
    environment = clean_environment(java_home) | {"SLUICE_HOME": str(sluice_home)}
    environment.pop("SLUICE_CONFIG", None)
    if config_path is None:
        return environment
    environment.pop("SLUICE_CONFIG_YAML", None)
    return environment | {"SLUICE_CONFIG": str(config_path)}


def clean_environment(java_home: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``base`` (default: this process's) without what bends a server, with our Java and Python."""
    kept = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if name not in _FOREIGN_NAMES and not name.startswith(_FOREIGN_PREFIXES)
    }
    return kept | {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
