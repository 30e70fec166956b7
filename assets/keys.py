"""Asset keys and step names of a pipeline."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from dagster import AssetKey

from spark_jobs.config.settings import PipelineConfig

GROUP_TOPICS = "topics"
GROUP_TABLES = "tables"
GROUP_UPKEEP = "upkeep"
GROUP_REPLAY = "replay"


def topic_key(topic: str) -> AssetKey:
    """Return ``kafka/<topic>``."""
    return AssetKey(["kafka", topic])


def table_key(pipeline: PipelineConfig) -> AssetKey:
    """Return the table's identifier, part by part: ``lake/flights``."""
    return AssetKey(pipeline.table.split("."))


def again_key(verb: str, pipeline: PipelineConfig) -> AssetKey:
    """Return ``replay/<verb>_<pipeline>``: a graph's boxes show the last part alone."""
    return AssetKey([GROUP_REPLAY, f"{verb}_{pipeline.name}"])


def upkeep_key(pipeline: PipelineConfig, kind: str) -> AssetKey:
    """Return ``upkeep/<kind>_<pipeline>``; the transaction log's kind is ``log``."""
    return AssetKey([GROUP_UPKEEP, f"{kind}_{pipeline.name}"])


def step_name(verb: str, name: str) -> str:
    """Return a valid, unique step name; a name that Dagster's alphabet cannot spell gets a short hash."""
    spelled = re.sub(r"\W", "_", name, flags=re.ASCII)
    suffix = "" if spelled == name else "_" + hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{verb}_{spelled}{suffix}"


def named_owners(owners: Iterable[str]) -> list[str]:
    """Return e-mail addresses as they are, and anything else as a team."""
    return [owner if "@" in owner or owner.startswith("team:") else f"team:{owner}" for owner in owners]
