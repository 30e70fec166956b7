"""The topics sensor: topics that match a ``topics_regex`` become pipelines automatically.

Its list is stored under ``state:``, where every process that loads the definitions reads it: the code server
and each run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection

from dagster import ResourceParam, SensorEvaluationContext, SkipReason

from orchestration.jobs import watching
from resources.sluice import Sluice
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.texts import count

SECONDS_BETWEEN_TICKS = 30
_LOAD_SECONDS = 120


@watching(
    SECONDS_BETWEEN_TICKS,
    "Lists the broker's topics for topics_regex and reloads the definitions if they changed.",
)
def topics_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SkipReason:
    """Run one tick; it never requests a run."""
    from spark_jobs.connections.broker_topics import refresh_topics  # noqa: PLC0415  (librdkafka, never at import)

    now = refresh_topics(sluice.config)
    loaded, listed = _pipelines_in(sluice.config), _pipelines_in(now)
    left_out = [str(problem) for problem in now.problems if problem not in sluice.config.problems]
    if listed == loaded and not left_out:
        return SkipReason(f"No topic was added or deleted: {count(len(loaded), 'pipeline')}.")
    added, deleted = _names("new", listed - loaded), _names("deleted", loaded - listed)
    changes = f"{added}{deleted}{_names('left out', left_out)}"
    context.log.info("the broker's topics have changed:%s", changes)
    return SkipReason(f"The definitions must be reloaded:{changes}{_load_again()}")


def _pipelines_in(config: SluiceConfig) -> set[str]:
    """Return the pipelines as ``name (topic)``: if two topics map to one name, either may have it."""
    return {f"{pipeline.name} ({pipeline.topic})" for pipeline in config.pipelines}


def _names(word: str, names: Collection[str]) -> str:
    return f" {word}: {', '.join(sorted(names))}." if names else ""


def _load_again() -> str:
    """Request a reload from the server of this process, if Dagster's variables name it."""
    address = {name: os.environ.get(f"DAGSTER_CODE_SERVER_{name.upper()}") for name in ("port", "socket")}
    if not any(address.values()):
        return " Reload the code location in Dagster, unless its daemon does so every minute."
    # The response comes when this process is about to end, so it is not awaited.
    threading.Thread(target=_reload, kwargs=address, daemon=True).start()
    return ""


def _reload(port: str | None, socket: str | None) -> None:
    from dagster._grpc.client import DagsterGrpcClient  # noqa: PLC0415  (only when there is news)

    client = DagsterGrpcClient(port=int(port)) if port else DagsterGrpcClient(socket=socket)
    client.reload_code(timeout=_LOAD_SECONDS)
