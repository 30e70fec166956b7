"""The lake of a configuration for who needs no more than that: its catalog and its transaction log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.lake import catalog
from spark_jobs.txlog.store import TxlogStore

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def open_catalog(config: SluiceConfig) -> Catalog:
    """Return a new catalog object; the caller closes it. Raises ``ConfigError`` for a missing secret too."""
    return catalog.open_catalog(config.catalog.name, resolve(config.catalog.properties))


def open_log(config: SluiceConfig) -> TxlogStore:
    """Return the log's store, which connects on first use. Raises ``ConfigError`` for a missing secret."""
    return TxlogStore(config.state, resolve(config.log_properties))
