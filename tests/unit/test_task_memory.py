"""A task that took more memory than it may is named, with both numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from spark_jobs.drain.drain_batch import IMPORTED_BYTES, _warn_of_memory

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchRun

MIB = 1 << 20


@pytest.mark.parametrize(("beyond", "is_told"), [(0, False), (MIB, True)])
def test_a_task_above_its_memory_is_told(
    caplog: pytest.LogCaptureFixture, *, beyond: int, is_told: bool
) -> None:
    """What a process takes before it reads anything is not held against it."""
    limit, batch = SimpleNamespace(task_memory_bytes=512 * MIB), SimpleNamespace(batch_id="b7")
    run = cast("BatchRun", SimpleNamespace(connections=limit, batch=batch))
    _warn_of_memory(run, 512 * MIB + IMPORTED_BYTES + beyond)
    assert ("above spark.task_memory (512 MiB)" in caplog.text) == is_told
    assert ("b7" in caplog.text) == is_told
