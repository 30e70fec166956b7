"""By which shape a pipeline's records become rows today."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.shaped_spans import LEAVES_OUT

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def shape_of(pipeline: PipelineConfig, connections: Connections) -> str:
    """Return the digest of what decides it, schema files too. Raises as ``RecordSchemas.file_digests``."""
    files = connections.schemas(pipeline).file_digests() if pipeline.has_schemas else {}
    return shape_digest(pipeline, files)


# The digest of what decides what a record becomes: rows of two of them may differ, rows of one do not.
#
# What is in force is digested, defaults written out: a version with another default has another digest. What
# is absent (no columns, no file) is left out, so that a key that comes later changes no digest until it is
# used.


# Neither order, place nor time of rows is a matter of these, nor who is told: a test names every other key.
SHAPING = ("columns", "filter", "route", "table_schema", "value", "layout", "cdc", "record_key")
_HEX_DIGITS = 16


def shape_digest(pipeline: PipelineConfig, files: Mapping[str, str]) -> str:
    """Return the shape of rows that this configuration makes; ``files`` are digests of its schema files."""
    said = pipeline.model_dump(mode="json", include=set(SHAPING))
    # A short form of `key`, until it was left out: tables keep digests with its default.
    said |= {"cdc": pipeline.envelope, "key_format": "string"}
    text = json.dumps(_present({**said, "files": dict(files)}), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HEX_DIGITS]
    # By these a record that could be a row may have none in the table.
    return LEAVES_OUT + digest if pipeline.filter or pipeline.value.header else digest


def _present(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inside = {name: _present(each) for name, each in value.items()}
    return {name: each for name, each in inside.items() if each not in (None, [], {})}
