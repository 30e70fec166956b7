"""A catalog that is down; `tests/prove` has kills and false answers over one that is served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.fault_proxy import FaultProxy
from prove.lab.pipeline_lab import Lab, configure, orders
from spark_jobs.protocol.errors import RetryableError
from tests.support.lake import Once
from tests.support.new_lab import serve_from

if TYPE_CHECKING:
    from prove.lab.s3 import S3
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark, pytest.mark.rest]

FEW = [*orders(0, 40), b"not json", None]


@pytest.fixture
def lab(new_lab: NewLab, rest_catalog_properties: dict[str, str], s3: S3) -> Lab:
    """A drained table over the REST catalog, its log in a bucket, and one more batch in the topic."""
    lab = new_lab(FEW, partitions=2)
    serve_from(lab, rest_catalog_properties, s3)
    lab.drain()
    new_lab.produce(lab, FEW)
    return lab


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
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (80, 2, 2, 0)
    assert lab.stray_files() == set()
