"""The quick selection of what `./sluice prove` runs, on the servers of the test run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.catalogue import choose
from prove.report import complaint
from prove.run import run_scenarios
from prove.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.s3 import S3Server

JOBS = 2

# It holds dozens of cases; on a busy machine the suite's limit for one test is too short.
pytestmark = [
    pytest.mark.timeout(2400),
    pytest.mark.faults,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.rest,
]


def test_the_quick_selection_keeps_every_promise(
    kafka: KafkaBroker,
    spark_remote: str,
    s3_server: S3Server,
    rest_catalog_properties: dict[str, str],
    tmp_path: Path,
) -> None:
    """Struck at each of these points, no pipeline loses, doubles, leaves or needlessly reads a record."""
    catalogs = {"rest": rest_catalog_properties}
    stage = Stage(tmp_path, str(kafka), s3_server.endpoint, spark_remote, catalogs)
    chosen = choose(is_quick=True)
    assert {need for scenario in chosen for need in scenario.needs} == {"rest", "spark"}
    outcomes = run_scenarios(chosen, stage, jobs=JOBS)
    assert not [complaint(outcome) for outcome in outcomes if not outcome.is_kept]
    assert {outcome.name for outcome in outcomes if outcome.left_out} <= {"sqlite/drain/disk-full"}
