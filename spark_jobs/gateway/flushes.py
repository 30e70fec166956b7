"""Runs of pipelines that clients ask for: one in a pipeline's ``freshness``, and never two at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from subprocess import Popen

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.gateway.gateway import Stream


class Flush(StrEnum):
    """What became of a request; of several pipelines' the first of these is told."""

    STARTED = "started"
    UNDER_WAY = "under_way"
    TOO_SOON = "too_soon"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Flushes:
    """``start`` starts a drain of the pipeline of that name. Asked from one thread."""

    start: Callable[[str], Popen[bytes]]
    clock: Callable[[], float] = time.monotonic
    _runs: dict[str, tuple[Popen[bytes], float]] = field(init=False, default_factory=dict)

    def __call__(self, stream: Stream) -> Flush:
        """Start runs of the stream's pipelines, or say why none was started."""
        became = {self._flush(pipeline) for pipeline in stream.pipelines}
        return next(each for each in Flush if each in {*became, Flush.UNSUPPORTED})

    def _flush(self, pipeline: PipelineConfig) -> Flush:
        if (before := self._runs.get(pipeline.name)) is not None:
            run, at = before
            if run.poll() is None:
                return Flush.UNDER_WAY
            if self.clock() - at < pipeline.freshness_seconds:
                return Flush.TOO_SOON
        self._runs[pipeline.name] = self.start(pipeline.name), self.clock()
        return Flush.STARTED
