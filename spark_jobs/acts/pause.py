"""Pausing a pipeline: kept in its table, so that it holds whatever runs the drains or is rebuilt."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.acts.act import act
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import BatchKind, Pause

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def pause(pipeline: PipelineConfig, connections: Connections, *, reason: str) -> Pause:
    """Stop drains before their next batch; upkeep and replays go on.

    Paused already, the new reason and actor take the place of the old ones. Raises ``ConfigError`` without a
    table and what ``act`` raises.
    """
    paused = Pause(reason, connections.actor, connections.now_us() // 1000)
    table = load_drained(pipeline, connections)
    change = partial(replace, paused=paused)
    act(pipeline.name, table, connections, BatchKind.PAUSE, reason=reason, change=change)
    return paused


def resume(pipeline: PipelineConfig, connections: Connections, *, reason: str) -> Pause | None:
    """Let drains go on; returns the pause that ended, None when there was none: nothing is committed then.

    Raises as ``pause``.
    """
    table = load_drained(pipeline, connections)
    paused = progress_of(table).paused
    if paused is not None:
        change = partial(replace, paused=None)
        act(pipeline.name, table, connections, BatchKind.RESUME, reason=reason, change=change)
    return paused
