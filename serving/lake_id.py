"""Which catalog and broker a Sluice works with, without their secrets: two may listen on one machine."""

from __future__ import annotations

import hashlib
import json

from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.settings import SluiceConfig


def lake_id(config: SluiceConfig) -> str:
    """Return the same for two configurations if their pipelines of one name are the same."""
    catalog = config.catalog
    broker = config.kafka.get("bootstrap.servers") or config.home
    lake = [catalog.properties.get(name, "") for name in ("uri", "warehouse")]
    parts = [catalog.name, *map(redact_urls, lake), broker]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
