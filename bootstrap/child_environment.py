"""What a command sees of the user's environment: no other project's Spark, Python, Dagster or PyIceberg."""

from __future__ import annotations

from collections.abc import Mapping

from bootstrap.places import Places

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
        "PYICEBERG_HOME": str(places.pyiceberg_home),
        "XDG_CACHE_HOME": str(places.cache.parent),
        "PYTHONPYCACHEPREFIX": str(places.bytecode),
    }
    certificates = user.get("PIP_CERT") or user.get("SSL_CERT_FILE")
    if certificates and not user.get("REQUESTS_CA_BUNDLE"):
        ours["REQUESTS_CA_BUNDLE"] = certificates
    return kept | ours
