"""A mirror stops at a change that cannot be a row, before anything says that its files are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.debezium_events import Source
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import PIPELINE, configure
from spark_jobs.protocol.errors import BadRecord, ConfigError
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka

PLAIN = Source()


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def change(number: int, **row: object) -> Record:
    """Return a change of one key."""
    return Record(PLAIN.event("c", {"id": number, **row}), key=PLAIN.key(number))


def test_a_bad_change_stops_a_mirror_unless_it_may_be_a_dead_letter(new_lab: NewLab) -> None:
    """Nothing is committed or adopted, however often it is tried; the first is told by place and column."""
    lab = new_lab([change(1, qty=1)], layout="mirror", columns={"qty": "int"})
    assert lab.drain().balance.dead_letters == 0
    keyless = Record(PLAIN.event("u", {"id": 1, "qty": 2}))
    new_lab.produce(lab, [change(2, qty=2), change(3, qty="many"), keyless])
    before = lab.table().metadata.current_snapshot_id
    for _ in range(2):
        with pytest.raises(BadRecord) as raised:
            lab.drain()
        assert raised.value.code == "bad-change"
        assert "2 changes of 3" in raised.value.message
        assert "0:2 (decode, column qty)" in raised.value.message
        assert lab.table().metadata.current_snapshot_id == before
    configure(lab, f"pipelines/{PIPELINE}", {"mirror": {"bad_changes": "dead_letters"}})
    result = lab.drain()
    assert (result.recovery.adopted, result.balance.dead_letters) == ((), 2)
    assert lab.rows(DEAD_LETTERS).num_rows == 2


def test_a_topic_without_keys_is_no_mirror(new_lab: NewLab) -> None:
    """No table is made; a table of changes can be."""
    lab = new_lab([Record(PLAIN.event("c", {"id": 1}))], layout="mirror")
    with pytest.raises(ConfigError) as raised:
        lab.drain()
    assert raised.value.code == "mirror-without-key"
    configure(lab, f"pipelines/{PIPELINE}", {"layout": "changes"})
    assert lab.drain().balance.rows == 1
