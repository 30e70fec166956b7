"""Isolation from the user's Spark variables such as SPARK_HOME and SPARK_REMOTE.

Has to run before pyspark is imported for the first time.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import MutableMapping

from spark_jobs.config.redaction import SPARKS_VARIABLES

LOOPBACK = "localhost,127.0.0.1,::1"

_logger = logging.getLogger(__name__)


def reach_loopback(variables: MutableMapping[str, str]) -> None:
    """Exclude loopback from proxies for this process and its children.

    gRPC and the clients of HTTP read these variables, some the one spelling and some the other.
    """
    given = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    for name in ("no_proxy", "NO_PROXY", *({"no_grpc_proxy"} & variables.keys())):
        before = variables[name] if name == "no_grpc_proxy" else given
        variables[name] = ",".join(filter(None, (before, LOOPBACK)))


@functools.cache
def isolate_from_user_spark() -> tuple[str, ...]:
    """Remove the user's Spark variables from this process, once, and run workers on this interpreter.

    Returns the names that were dropped and says so in the log; later calls do nothing, because pyspark
    keeps notes of its own under the same prefix.
    """
    dropped = tuple(sorted(name for name in os.environ if name.startswith(SPARKS_VARIABLES)))
    for name in dropped:
        del os.environ[name]
    reach_loopback(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    foreign = tuple(name for name in dropped if name not in {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"})
    if foreign:
        _logger.info("ignored from the environment: %s (Spark is set up in sluice.yaml)", ", ".join(foreign))
    return dropped
