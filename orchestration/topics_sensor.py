"""The sensor of topics: those that a ``topics_regex`` matches become pipelines without anybody's doing.

What it lists lies under ``state:``, from where each process that loads the definitions takes it: the code
server, and a run wherever it is launched.
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
    "Lists the broker's topics for topics_regex, and has the definitions loaded again.",
)
def topics_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SkipReason:
    """One tick; it asks for no run."""
    from spark_jobs.connections.broker_topics import refresh_topics  # noqa: PLC0415  (librdkafka, never at import)

    now = refresh_topics(sluice.config)
    loaded, listed = _drained(sluice.config), _drained(now)
    left_out = [str(problem) for problem in now.problems if problem not in sluice.config.problems]
    if listed == loaded and not left_out:
        return SkipReason(f"No topic came or went: {count(len(loaded), 'pipeline')}.")
    told = f"{_names('new', listed - loaded)}{_names('gone', loaded - listed)}{_names('left out', left_out)}"
    context.log.info("the topics of the broker have changed:%s", told)
    return SkipReason(f"The definitions are to be loaded again:{told}{_load_again()}")


def _drained(config: SluiceConfig) -> set[str]:
    """Return the pipelines, by name and topic: of two topics that want one name another may have it."""
    return {f"{pipeline.name} ({pipeline.topic})" for pipeline in config.pipelines}


def _names(word: str, names: Collection[str]) -> str:
    return f" {word}: {', '.join(sorted(names))}." if names else ""


def _load_again() -> str:
    """Ask the server in front of this process for it, where Dagster's variables name it."""
    address = {name: os.environ.get(f"DAGSTER_CODE_SERVER_{name.upper()}") for name in ("port", "socket")}
    if not any(address.values()):
        return " Who started this code server has to do it; a daemon that did does it each minute."
    # The answer comes when this process is about to end: nobody here could wait for it.
    threading.Thread(target=_reload, kwargs=address, daemon=True).start()
    return ""


def _reload(port: str | None, socket: str | None) -> None:
    from dagster._grpc.client import DagsterGrpcClient  # noqa: PLC0415  (only when there is news)

    client = DagsterGrpcClient(port=int(port)) if port else DagsterGrpcClient(socket=socket)
    client.reload_code(timeout=_LOAD_SECONDS)
