"""Runs of pipelines that clients ask for: one in a pipeline's ``freshness``, and never two at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol

from spark_jobs.gateway.gateway import Stream


class Flush(StrEnum):
    """What became of a request."""

    STARTED = "started"
    UNDER_WAY = "under_way"
    TOO_SOON = "too_soon"
    UNSUPPORTED = "unsupported"


class Run(Protocol):
    """A process."""

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""


class Flushes:
    """``start`` starts a drain of the pipeline of that name. Asked from one thread."""

    def __init__(self, start: Callable[[str], Run], clock: Callable[[], float] = time.monotonic) -> None:
        self._start = start
        self._clock = clock
        self._runs: dict[str, tuple[Run, float]] = {}

    def __call__(self, stream: Stream) -> Flush:
        """Start a run of the stream's pipeline, or say why not."""
        pipeline = stream.pipeline
        if pipeline is None:
            return Flush.UNSUPPORTED
        if (before := self._runs.get(pipeline.name)) is not None:
            run, at = before
            if run.poll() is None:
                return Flush.UNDER_WAY
            if self._clock() - at < pipeline.freshness_seconds:
                return Flush.TOO_SOON
        self._runs[pipeline.name] = self._start(pipeline.name), self._clock()
        return Flush.STARTED
