"""What Spark is started with, in files that only this user reads: every user of a machine sees command lines.

Java takes its own options from an argument file for the same reason.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.protocol.errors import fault
from spark_jobs.storage.state_files import write_whole

# Spark's launcher puts these on the JVM's command line, wherever it read them.
_JAVA_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
# As Java's properties files spell them.
_SPELLED = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", " ": r"\ ", "=": r"\=", ":": r"\:"})


def write_spark_defaults(folder: Path, conf: Mapping[str, str]) -> Path:
    """Return the file that the settings were put into, which Spark finds with ``SPARK_CONF_DIR``."""
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
