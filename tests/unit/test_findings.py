"""Where log and table contradict each other, and where they only seem to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_jobs.audit.findings import log_findings
from spark_jobs.protocol.work import WORKS, Work
from spark_jobs.txlog.entries import Attempt, Swept
from tests.support.log_entries import TABLE_UUID, make_batch, make_progress, offset_commit


@pytest.mark.parametrize("kind", WORKS.values(), ids=WORKS)
def test_an_act_may_land_after_it_was_called_undone(kind: Work) -> None:
    """It has no files that a sweep could have taken; what has some is named."""
    batch = replace(make_batch(), kind=kind)
    entries = (offset_commit(batch), Swept(0, "run-2", 2_000))
    attempt = Attempt(TABLE_UUID, batch.attempt, batch, entries, (), reached=1)
    found = list(log_findings("p", [attempt], make_progress(10), {batch.attempt}))
    assert [finding.where for finding in found] == ([batch.attempt] if kind.writes_files else [])
