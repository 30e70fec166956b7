"""A follower beside a schema registry: what that does not give holds up whoever needs it, and nobody else."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from prove.lab.fresh_oracle import checked
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.hot.tail_status import State
from tests.integration.test_drain_by_schema import FIRST, SECOND, by_registry, framed, order
from tests.integration.test_following import SECONDS, following
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.http_proxy import Client, Request
    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka

FIRST_ID, SECOND_ID = 1, 2


def _records(schema_id: int, first: int, partition: int) -> list[Record]:
    fields = FIRST if schema_id == FIRST_ID else SECOND
    rows = ({"id": first + n, "total": 1.0, "note": "n"} for n in range(4))
    return [Record(framed(schema_id, order(fields), row), partition=partition) for row in rows]


class _Slow(RegistryStandIn):
    """Answers later than anybody waits, while ``is_slow``."""

    is_slow = False

    def serve(self, request: Request, client: Client) -> None:
        if self.is_slow:
            time.sleep(1.5)
        super().serve(request, client)


def test_a_registry_that_does_not_answer_stops_only_the_partition_that_needs_it(
    kafka: KafkaBroker, tmp_path: Path
) -> None:
    """Its end stands and is told as blocked; the others go on as fast as ever; once it answers all do."""
    new_lab = NewLab(kafka, "", tmp_path, is_here=True)
    with _Slow() as registry:
        assert registry.register("orders-value", order(FIRST)) == FIRST_ID
        lab = by_registry(new_lab, registry.url, _records(FIRST_ID, 0, 0), partitions=2, hot=True)
        lab.drain()
        assert registry.register("orders-value", order(SECOND)) == SECOND_ID
        configure(lab, "registries/main", {"timeout": "1s"})
        registry.is_slow = True
        with following(lab) as follower:
            new_lab.produce(lab, _records(SECOND_ID, 10, 0))
            for first in range(20, 60, 4):
                new_lab.produce(lab, _records(FIRST_ID, first, 1))
                # Less than one question takes, with what is tried again.
                soon = partial(follower.pin, "orders", patience_seconds=1)
                assert checked(lab, pin=soon, after={1: first - 17}, is_json=False).ends[0] == 4
            deadline = time.monotonic() + SECONDS
            while (told := follower.statuses()[0]).reason is None:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert (told.state, told.reason.code) == (State.BLOCKED, "registry-away")
            registry.is_slow = False
            ends = follower.pin("orders", after={0: 7}, patience_seconds=SECONDS).watermark.ends
            assert ends == {0: 8, 1: 40}
            assert follower.statuses()[0].reason is None
