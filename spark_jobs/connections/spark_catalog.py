"""The catalog as a Spark session knows it, for Iceberg's own procedures.

The properties, secrets among them, travel over the session's own connection: they are in no statement, log,
command line or UI, and two pipelines' servers need no configuration of their own.
"""

from __future__ import annotations

from typing import Any

from spark_jobs.config.redaction import MASK
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.lake.catalog_names import spark_catalog_conf

# The kind of work whose session knows the catalog; tasks of drains read and write without Spark's help.
UPKEEP = "upkeep"
# Metadata is small: most of Spark's 200 tasks a shuffle would only be scheduled; sorts have their own number.
SHUFFLE_PARTITIONS = 8


def catalog_conf(config: SluiceConfig) -> dict[str, str]:
    """Return what an upkeep session is told beyond the user's own Spark configuration."""
    name = config.catalog.name
    return {
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        **spark_catalog_conf(name, resolve(config.catalog.properties)),
        # Spark would go on showing a table as it was when it was first read.
        f"spark.sql.catalog.{name}.cache-enabled": "false",
    }


def lake_name(config: SluiceConfig) -> tuple[str, ...]:
    """Return what tells the lake from others, as configured: references to secrets stay references."""
    properties = config.catalog.properties
    return (config.catalog.name, *(properties[key] for key in ("uri", "warehouse") if key in properties))


def know_catalog(session: Any, conf: dict[str, str]) -> bool:
    """Tell a Connect session of the catalog; False when it knows another one by now.

    A session loads a catalog once and will not forget it: changed credentials need another session. A server
    may have a mask in the place of a secret, as docs/SPARK.md tells.
    """
    known = {key: session.conf.get(key, None) for key in conf}
    if any(value not in {None, MASK, conf[key]} for key, value in known.items() if ".catalog." in key):
        return False
    for key in [key for key, value in known.items() if value != conf[key]]:
        session.conf.set(key, conf[key])
    return True
