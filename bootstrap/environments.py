"""Environment variables of commands, without the user's Spark, Python, Dagster and PyIceberg settings.

Set-up's tools get the user's index, proxy and certificates from pip's own settings, wherever they are.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from bootstrap.places import PYICEBERG_HOME, Places

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
    """Return variables that pass the settings of ``pip config list`` to uv; the user's uv variables win."""
    settings = [line.partition("=")[::2] for line in pip_settings.splitlines() if "=" in line]
    wanted = {
        UV_NAMES[key]: " ".join(str(ast.literal_eval(value)).split())
        for wanted_section in SECTIONS
        for (section, _, key), value in ((name.rpartition("."), value) for name, value in settings)
        if section == wanted_section and key in UV_NAMES
    }
    certificates = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if certificates:
        wanted.setdefault("SSL_CERT_FILE", certificates)
    if "UV_INDEX" in wanted:
        # pip looks into all indexes; hashes make that safe.
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in wanted.items() if not environment.get(name)}
