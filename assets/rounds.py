"""A round: one run that drains several small pipelines, one after the other, each within a time limit.

A step past its limit is interrupted as by a cancel in the UI, which also stops its Spark work, and the run
ends: the tables after it are asked for again in the next tick.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from resources.spark import is_connecting

if TYPE_CHECKING:
    from dagster import AssetExecutionContext

# On a run of a round.
TAG_ROUND = ".dagster/sluice-round"
IS_ROUND = "yes"
# The pipeline whose step took longer than its limit in this round.
TAG_OVER_LIMIT = ".dagster/sluice-over-limit"
STEP_LIMIT_SECONDS = 20.0
# Waiting for Spark is not a pipeline's fault: it does not count, for as long as a run waits for a server.
CONNECTING_SECONDS = 30.0
# A step that cannot be interrupted (in a C library) ends with its process.
INTERRUPTED_STEP_SECONDS = 15.0
# Where more work than processors is ready, a step takes longer by no fault of its own, and so may it.
MOST_PATIENCE = 6.0
BUSY = 2.0
_LOOK_SECONDS = 0.5


@contextmanager
def step_limit(context: AssetExecutionContext, pipeline: str) -> Iterator[None]:
    """In a round, end the run if the block takes longer than the limit."""
    if TAG_ROUND not in context.run.tags:
        yield
        return
    is_done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        if _ends_in_time(is_done):
            return
        if not is_connecting() and load_per_core() < BUSY:
            with suppress(Exception):  # without the tag the pipeline is only asked for alone at this state
                context.instance.add_run_tags(context.run.run_id, {TAG_OVER_LIMIT: pipeline})
        is_over.set()
        os.kill(os.getpid(), signal.SIGINT)
        if not is_done.wait(INTERRUPTED_STEP_SECONDS):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        is_done.set()
        if is_over.is_set():
            limit = "%s took longer than %.0f s in a run with others: the run ends"
            context.log.error(limit, pipeline, STEP_LIMIT_SECONDS)


def load_per_core() -> float:
    """Return how many processes of this machine wait for each processor or use it, over a minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _ends_in_time(is_done: threading.Event) -> bool:
    left, connecting = STEP_LIMIT_SECONDS, CONNECTING_SECONDS
    while left > 0:
        was_connecting, looked = connecting > 0 and is_connecting(), time.monotonic()
        if is_done.wait(min(left, _LOOK_SECONDS)):
            return True
        seconds = time.monotonic() - looked
        if was_connecting:
            connecting -= seconds
        else:
            left -= seconds / min(MOST_PATIENCE, max(1.0, load_per_core()))
    return is_done.is_set()
