"""The kill points over a REST catalog and S3, and one that is down; `tests/prove` has its false answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.fault_proxy import FaultProxy
from prove.lab.new_lab import configure, serve_from
from prove.lab.pipeline_lab import Lab, orders
from spark_jobs.core.errors import RetryableError
from tests.support.lake import Once

if TYPE_CHECKING:
    from prove.lab.new_lab import NewLab
    from prove.lab.s3 import S3

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark, pytest.mark.rest]

FEW = [*orders(0, 40), b"not json", None]
POINTS = (
    "drain.after-flush-start",
    "drain.after-tasks",
    "drain.after-parquet-written",
    "commit.before-swap",
    "commit.after-swap",
    "dead-letters.before-swap",
)


@pytest.fixture
def lab(new_lab: NewLab, rest_catalog_properties: dict[str, str], s3: S3) -> Lab:
    """A drained table over the REST catalog, its log in a bucket, and one more batch in the topic."""
    lab = new_lab(FEW, partitions=2)
    serve_from(lab, rest_catalog_properties, s3)
    lab.drain()
    new_lab.produce(lab, FEW)
    return lab


def _expect_whole(lab: Lab, times: int) -> None:
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (40 * times, times, times, 0)
    assert lab.stray_files() == set()


def test_drains_over_a_served_catalog_killed_at_each_point(lab: Lab, new_lab: NewLab) -> None:
    """One table, killed at one point after another: nothing missing, doubled or left over."""
    for times, point in enumerate(POINTS, start=2):
        lab.kill_at(point)
        lab.drain()
        _expect_whole(lab, times)
        new_lab.produce(lab, FEW)


def test_a_catalog_that_is_down_before_or_during_a_run(
    lab: Lab, rest_catalog_properties: dict[str, str]
) -> None:
    """Both are one line and worth a retry, and the batch that was written by then is adopted later."""
    with FaultProxy(rest_catalog_properties["uri"]) as proxy:
        configure(lab, "catalog", {"uri": proxy.url})
        for points in (Once("drain.after-parquet-written", proxy.stop), Once("", proxy.stop)):
            with pytest.raises(RetryableError) as raised:
                lab.drain(fail_points=points)
            assert raised.value.code == "catalog-away"
            assert "\n" not in str(raised.value)
            assert raised.value.hint
    configure(lab, "catalog", {"uri": rest_catalog_properties["uri"]})
    assert len(lab.drain().recovery.adopted) == 1
    _expect_whole(lab, 2)
