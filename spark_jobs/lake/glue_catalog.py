"""AWS Glue by its own API; imported only if it is configured."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spark_jobs.protocol.errors import fault, first_line, needs

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

# PyIceberg's ten, of a minute each, would hold a run for longer than an outage is worth.
_RETRIES = 2
# A client takes 65 ms of CPU to make, as long as a commit does. It holds connections, so no fork shares it.
_clients: dict[tuple[object, ...], Any] = {}


def open_glue_catalog(name: str, properties: dict[str, str]) -> Catalog:
    """Return a new catalog object over the process's client.

    Raises ``ConfigError`` for a missing region, profile or package.
    """
    with needs("glue"):
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from pyiceberg.catalog.glue import GLUE_MAX_RETRIES, GlueCatalog  # noqa: PLC0415

    retries = int(properties.get(GLUE_MAX_RETRIES, _RETRIES))  # boto3 takes no text
    key = (os.getpid(), *sorted(properties.items()))
    try:
        catalog = GlueCatalog(name, _clients.get(key), **{**properties, GLUE_MAX_RETRIES: retries})
    except BotoCoreError as error:
        raise fault("catalog-settings", why=first_line(error), catalog=name) from error
    if key not in _clients:
        _clients.clear()  # secrets were rotated
        _clients[key] = catalog.glue
    return catalog
