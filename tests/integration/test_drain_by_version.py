"""Values and keys that name no schema, by the version of a subject: each batch by the one of its own time."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, progress
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from tests.integration.test_drain_by_schema import FIRST, THIRD, bare, order, values_of
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

BY_VERSION = {"format": "avro", "registry": "main", "framing": "none"}
NOBODY = "http://127.0.0.1:9"
ONE, OTHER = order(FIRST), order(THIRD)


@pytest.fixture
def stand_in() -> Iterator[RegistryStandIn]:
    """A registry of the test's own."""
    with RegistryStandIn() as registry:
        yield registry


def spans(lab: Any) -> list[tuple[str, dict[int, int]]]:
    """Return which schema reads what, as the table keeps it."""
    return [(str(span.key), span.starts) for span in progress(lab).schema_spans]


def test_each_batch_is_read_for_ever_by_the_version_that_it_was_drained_by(
    new_lab: NewLab, stand_in: RegistryStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """By audit, replay and its preview, without the registry too; a store that is lost is filled again."""
    lab = new_lab([], value=BY_VERSION)
    configure(lab, "", {"registries": {"main": {"url": stand_in.url, "timeout": "2s"}}})
    subject = f"{lab.pipeline.topic}-value"
    stand_in.register(subject, ONE)
    first = [{"id": 1, "total": 1.5}, {"id": 2, "total": None}]
    new_lab.produce(lab, [bare(ONE, value) for value in first])
    lab.drain()
    stand_in.register(subject, OTHER)
    second = {"id": 3, "note": "gift", "address": {"city": "Ulm"}}
    new_lab.produce(lab, [bare(OTHER, second)])
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=10)
    assert (seen.balance.rows, seen.added) == (1, ("note", "address"))
    lab.drain()
    configure(lab, "registries/main", {"url": NOBODY})
    third = {"id": 4, "note": None, "address": {"city": "Bonn"}}
    new_lab.produce(lab, [bare(OTHER, third)])
    with caplog.at_level(logging.WARNING, "spark_jobs"):
        lab.drain()
    assert f"{subject} is read by schema 2, the last one of the table" in caplog.text
    nothing = {"total": None, "note": None, "address": None}
    wanted = {(0, at): {**nothing, **value} for at, value in enumerate((*first, second, third))}
    assert values_of(lab) == wanted
    assert spans(lab) == [("1", {0: 0}), ("2", {0: 2})]
    with lab.connections() as connections:
        plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 4)])
        assert diff_replay(lab.pipeline, connections, plan).rows_same == 4
    lab.replay(OffsetRange(0, 0, 3))
    assert values_of(lab) == wanted
    assert lab.audit().is_clean

    shutil.rmtree(lab.path.parent / "home" / "log" / "schemas")
    with pytest.raises(RetryableError, match="registry"):
        lab.audit()
    configure(lab, "registries/main", {"url": stand_in.url})
    found = lab.audit()
    assert (found.is_clean, found.rows) == (True, 4)


def test_an_adopted_batch_stays_with_the_version_it_was_read_by(
    new_lab: NewLab, stand_in: RegistryStandIn
) -> None:
    """Whatever was registered since; keys have a subject of their own, and an archive shows which it was."""
    lab = new_lab([], value=BY_VERSION, key={**BY_VERSION, "subject": "shop.Number"}, layout="archive")
    configure(lab, "", {"registries": {"main": {"url": stand_in.url, "timeout": "2s"}}})
    subject, number = f"{lab.pipeline.topic}-value", order([{"name": "number", "type": "long"}])
    stand_in.register(subject, ONE)
    stand_in.register("shop.Number", number)
    key = bare(number, {"number": 7})
    new_lab.produce(lab, [Record(bare(ONE, {"id": 1, "total": 2.0}), key=key)])
    lab.kill_at("drain.after-parquet-written")
    stand_in.register(subject, OTHER)
    other = bare(OTHER, {"id": 2, "note": None, "address": {"city": "Ulm"}})
    new_lab.produce(lab, [Record(other, key=key), Record(None, key=key)])
    (adopted,) = lab.drain().recovery.adopted
    assert [str(key) for key in adopted.batch.read_by] == ["1", "key/2"]
    assert spans(lab) == [("1", {0: 0}), ("key/2", {0: 0}), ("3", {0: 1})]
    rows = dict(sorted(by_offset(lab).items()))
    assert [row["key"]["number"] for row in rows.values()] == [7, 7, 7]
    read = [
        row["value"] and {name: row["value"][name] for name in ("__schema_id__", "id", "total", "address")}
        for row in rows.values()
    ]
    assert read == [
        {"__schema_id__": "1", "id": 1, "total": 2.0, "address": None},
        {"__schema_id__": "3", "id": 2, "total": None, "address": {"city": "Ulm"}},
        None,
    ]
    assert lab.audit().is_clean
    lab.replay(OffsetRange(0, 0, 3))
    assert {at: row["value"] for at, row in by_offset(lab).items()} == {
        at: row["value"] for at, row in rows.items()
    }
    assert lab.drained(DEAD_LETTERS) == 0
