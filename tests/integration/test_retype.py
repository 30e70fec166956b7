"""A column in another type, on real parts: its values from the old column, and none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from prove.lab.pipeline_lab import by_offset, configure, orders, progress
from spark_jobs.protocol.errors import BatchHeld, ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from spark_jobs.reshape.repartition import repartition
from spark_jobs.reshape.retype import Retyped, retype
from tests.support.new_lab import DEAD_LETTERS, as_json, column_types

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

KEPT = "_id_was_double"
ODD, NEXT_ODD = 9007199254740993, 9007199254740995


def _retype(lab: Lab, column: str, type_name: str, **changes: Any) -> Retyped:
    with lab.connections(**changes) as connections:
        return retype(lab.pipeline, connections, column, type_name, reason="ids are no fractions")


def _values(lab: Lab) -> dict[int, tuple[Any, Any]]:
    return {offset: (row["id"], row[KEPT]) for (_, offset), row in by_offset(lab).items()}


def _of_doubles(new_lab: NewLab, records: list[Any]) -> Lab:
    """A table whose ids a stray fraction, or a declaration, made a column of doubles."""
    lab = new_lab(as_json(*records), columns={"id": "double"})
    lab.drain()
    return lab


def test_what_fits_is_taken_over_and_dead_letters_go_through_again(new_lab: NewLab) -> None:
    """Told first; a fraction stays what it was, a letter of a big id becomes a row, the audit is clean."""
    lab = _of_doubles(new_lab, [{"id": 1.5}, {"id": 7}, {"id": ODD}, {"id": NEXT_ODD}, {"id": "x"}])
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 2), (0, 3), (0, 4)]
    configure(lab, "pipelines/orders", {"columns": {"id": "long"}})
    new_lab.produce(lab, as_json({"id": 8}))
    with pytest.raises(ConfigError, match="column-clash") as refused:
        lab.drain()
    assert "./sluice retype orders id 'long' --reason" in refused.value.hint
    with lab.connections() as connections, pytest.raises(ConfigError, match="column-clash"):
        diff_replay(lab.pipeline, connections, plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 5)]))

    assert _retype(lab, "id", "long") == Retyped("id", KEPT, files=1, left=1)
    lab.drain()
    lab.redrive()
    assert _values(lab) == {0: (None, 1.5), 1: (7, None), 2: (ODD, None), 3: (NEXT_ODD, None), 5: (8, None)}
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 4)]
    found = lab.audit()
    assert found.is_clean, found
    new_lab.produce(lab, as_json({"id": 2.5}))
    lab.drain()
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 4), (0, 6)]
    assert lab.stray_files() == set()
    with pytest.raises(ConfigError, match="cannot-retype"):
        _retype(lab, "id", "long")
    configure(lab, "pipelines/orders", {"columns": {"id": "string"}})
    assert _retype(lab, "id", "string").left == 5


def test_what_a_record_says_better_a_replay_brings(new_lab: NewLab) -> None:
    """A double may be the nearest of two integers; read again, what does not fit is a dead letter."""
    lab = _of_doubles(new_lab, [{"id": 1.5}, {"id": 7}, {"id": ODD - 1}])
    configure(lab, "pipelines/orders", {"columns": {"id": "long"}})
    assert _retype(lab, "id", "long") == Retyped("id", KEPT, files=1, left=2)
    assert _values(lab) == {0: (None, 1.5), 1: (7, None), 2: (None, ODD - 1)}
    found = lab.audit()
    assert (found.is_clean, found.outdated) == (True, 1)
    lab.replay(OffsetRange(0, 2, 3))
    rows = {0: (None, 1.5), 1: (7, None), 2: (ODD - 1, None)}
    assert _values(lab) == rows
    assert lab.audit().is_clean
    lab.replay(OffsetRange(0, 0, 3))
    del rows[0]
    assert _values(lab) == rows
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 0)]
    assert lab.audit().is_clean


def test_a_batch_in_flight_is_read_again(new_lab: NewLab) -> None:
    """Its files have the old column; what it read comes in with the new one."""
    lab = _of_doubles(new_lab, [{"id": 1}, {"id": 2}])
    new_lab.produce(lab, as_json({"id": 3}))
    with lab.stopped_at("drain.after-tasks") as drain:
        configure(lab, "pipelines/orders", {"columns": {"id": "long"}})
        _retype(lab, "id", "long")
        drain.go_on()
        assert drain.answer().error == "offsets-moved"
    lab.drain()
    assert [row["id"] for _, row in sorted(by_offset(lab).items())] == [1, 2, 3]
    assert column_types(lab)["id"] == str(pa.int64())
    assert lab.audit().is_clean
    assert lab.stray_files() == set()


def test_new_files_are_partitioned_as_declared(new_lab: NewLab) -> None:
    """Older ones stay, what was planned before is read again, and a held batch is decided on first."""
    cheap = {"expect_column_values_to_be_between": {"column": "price", "max_value": 20}}
    lab = new_lab(orders(0, 10), quality=[{"name": "strict", "when": "gate", "expectations": [cheap]}])
    lab.drain()
    configure(lab, "pipelines/orders", {"partition_by": ["bucket(2, id)"]})
    new_lab.produce(lab, orders(10, 5))
    with lab.stopped_at("drain.after-tasks") as drain, lab.connections() as connections:
        done = repartition(lab.pipeline, connections, reason="reads are by id")
        drain.go_on()
        assert drain.answer().error == "partitioning-changed"
    assert (done.before, done.after) == ((), ("bucket[2](id)",))
    lab.drain()
    files = [(task.file.spec_id, task.file.record_count) for task in lab.table().scan().plan_files()]
    assert {spec for spec, _ in files} == {0, 1}
    assert sum(rows for _, rows in files) == 15
    assert progress(lab).rollbacks == 1
    assert lab.audit().is_clean
    with lab.connections() as connections, pytest.raises(ConfigError, match="cannot-repartition"):
        repartition(lab.pipeline, connections, reason="again")
    configure(lab, "pipelines/orders", {"partition_by": []})
    new_lab.produce(lab, orders(30, 5))
    assert lab.drain().stopped == "held"
    with lab.connections() as connections, pytest.raises(BatchHeld):
        repartition(lab.pipeline, connections, reason="again")
