"""What Spark is started with, in files that only this user reads: every user of a machine sees command lines.

Java takes its own options from an argument file for the same reason.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Spark's launcher puts these on the JVM's command line, wherever it read them.
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")


def write_spark_defaults(folder: Path, conf: Mapping[str, str]) -> Path:
    """Return the file that the settings were put into, which Spark finds with ``SPARK_CONF_DIR``."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    launched = dict(conf)
    for key in launched.keys() & _JAVA_OPTIONS:
        options = folder / f"{key}.args"
        _write_private(options, launched[key])
        launched[key] = f'"@{options}"'
    lines = (f"{_escaped(key)} {_escaped(value)}\n" for key, value in launched.items())
    return _write_private(folder / "spark-defaults.conf", "".join(lines))


def _write_private(file: Path, text: str) -> Path:
    file.unlink(missing_ok=True)  # it may be there with wider rights
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
    return file


def _escaped(text: str) -> str:
    """Return the text as Java's properties files spell it."""
    for character, spelled in {
        "\\": r"\\",
        "\n": r"\n",
        "\r": r"\r",
        " ": r"\ ",
        "=": r"\=",
        ":": r"\:",
    }.items():
        text = text.replace(character, spelled)
    return text
