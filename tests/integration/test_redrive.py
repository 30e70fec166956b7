"""Dead letters sent through again on real parts: rows with their own coordinates, without Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, orders, progress
from spark_jobs.audit.trace import trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.protocol.errors import CommitConflict, ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.redrive_plan import Selection
from tests.support.new_lab import DEAD_LETTERS, NewLab, as_json

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka]

BROKEN = b"not json"
HALF = {"half": {"type": "long", "sql": "CASE WHEN id % 5 = 0 THEN CAST('x' AS BIGINT) ELSE id END"}}
WHOLE = {"half": {"type": "long", "sql": "CAST(id / 5 AS BIGINT)"}}
FEW = {"half": {"type": "long", "sql": "CASE WHEN id % 10 = 0 THEN CAST('x' AS BIGINT) ELSE id END"}}


@pytest.fixture
def labs(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Makes labs whose tasks run here."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def _mend(lab: Lab, columns: dict[str, Any] = WHOLE, **more: Any) -> None:
    configure(lab, "pipelines/orders", {"columns": columns, **more})


def _records(first: int, count: int) -> list[Record]:
    headers = [("h", b"1"), ("h", None)]
    return [
        Record(value, key=b"k%d" % n, headers=headers, partition=n % 2, timestamp_ms=1_767_225_600_000 + n)
        for n, value in enumerate(orders(first, count), first)
    ]


def _placed(lab: Lab) -> dict[tuple[int, int], dict[str, Any]]:
    return {at: {**row, "_ingested_at": 0} for at, row in by_offset(lab).items()}


def test_letters_become_the_rows_that_a_replay_makes_of_their_records(labs: NewLab) -> None:
    """Key, headers, time and coordinates are the record's; the topic may be gone; twice equals once."""
    lab = labs([*_records(0, 40), Record(BROKEN, partition=1)], partitions=2, columns=HALF)
    lab.drain()
    letters = by_offset(lab, DEAD_LETTERS)
    assert len(letters) == 9
    _mend(lab)
    configure(lab, "kafka", {"bootstrap.servers": "127.0.0.1:1"})
    done = lab.redrive()
    assert (done.balance.rows, done.balance.dead_letters, done.left) == (8, 1, {})
    assert done.dead_letter_phases == {"decode": 1}
    ((at, again),) = by_offset(lab, DEAD_LETTERS).items()
    assert (again["failures"], again["first_failed_at"]) == (2, letters[at]["_ingested_at"])
    assert again["_ingested_at"] > letters[at]["_ingested_at"]
    assert {again[name] for name in ("value", "phase")} == {BROKEN, "decode"}
    assert lab.redrive(Selection(phases=("transform",))).batches == ()
    configure(lab, "kafka", {"bootstrap.servers": f"{labs.kafka}"})
    redriven = _placed(lab)
    assert len(redriven) == 40
    assert lab.audit().is_clean
    assert progress(lab).next_offsets == {0: 20, 1: 21}
    lab.replay(OffsetRange(0, 0, 20), OffsetRange(1, 0, 21))
    assert {at: row for at, row in _placed(lab).items() if at in letters} == {
        at: row for at, row in redriven.items() if at in letters
    }
    assert lab.stray_files() == set()


def test_only_what_was_asked_for_is_sent_and_in_batches(labs: NewLab) -> None:
    """By phase, field, range and number; a batch is a commit; what is left stays as it is."""
    lab = labs([*orders(0, 50), BROKEN], columns=HALF)
    lab.drain()
    _mend(lab, FEW, max_batch_records=2)
    assert lab.redrive(Selection(fields=("nothing",))).batches == ()
    done = lab.redrive(Selection(("transform",), ("half",), (OffsetRange(0, 0, 36),), limit=7))
    assert [batch.counts.balance.records for batch in done.batches] == [2, 2, 2, 1]
    assert (done.balance.rows, done.balance.dead_letters) == (3, 4)
    letters = by_offset(lab, DEAD_LETTERS)
    assert {at: letter["failures"] for (_, at), letter in letters.items()} == {
        **dict.fromkeys((0, 10, 20, 30), 2),
        **dict.fromkeys((35, 40, 45, 50), 1),
    }
    assert progress(lab).redrives == 4
    assert lab.table().metadata.properties["sluice.format-version"] == "3"
    assert lab.audit().is_clean


def test_an_audit_tells_redriven_rows_of_an_earlier_configuration(labs: NewLab) -> None:
    """Back under the configuration of the drain, its rows are right, and theirs are outdated, not wrong."""
    lab = labs(orders(0, 20), columns=HALF)
    lab.drain()
    _mend(lab, filter="id <> 10")
    done = lab.redrive()
    assert (done.balance.rows, done.balance["filtered"]) == (3, 1)
    audited = lab.audit()
    assert (audited.is_clean, audited.rows, audited.filtered, audited.missing) == (True, 19, 1, 0)
    with lab.connections() as connections:
        traced = [trace(lab.pipeline, connections, 0, offset)[0] for offset in (5, 6, 10)]
    assert [each.where for each in traced] == [Where.ROW, Where.ROW, Where.FILTERED]
    assert [each.entry and each.entry.kind for each in traced] == ["redrive", "drain", "drain"]
    _mend(lab, {"half": {"type": "long", "sql": "id"}}, filter=None)
    audited = lab.audit()
    assert (audited.is_clean, audited.outdated) == (True, 3)  # two rows, and one that was left out


def test_a_redrive_whose_gate_refuses_leaves_letters_as_they_are(labs: NewLab) -> None:
    """A suite that sends rows to the dead letters keeps its own; one that holds refuses the whole."""
    cheap = {"expect_column_values_to_be_between": {"column": "half", "max_value": 5}}
    gate = {"name": "cheap", "when": "gate", "expectations": [cheap], "on_failure": "dead_letters"}
    lab = labs(orders(0, 40), columns=HALF)
    lab.drain()
    _mend(lab, quality=[gate])
    done = lab.redrive()
    assert (done.balance.rows, done.dead_letter_phases) == (6, {"quality": 2})
    assert {letter["failures"] for letter in by_offset(lab, DEAD_LETTERS).values()} == {2}


def test_a_replay_in_between_fences_a_redrive(labs: NewLab) -> None:
    """And nothing of it stays; the other way round the replay is refused."""
    lab = labs(orders(0, 20), columns=HALF)
    lab.drain()
    _mend(lab)

    class Between:
        def reach(self, name: str) -> None:
            if name == "redrive.before-swap":
                lab.replay(OffsetRange(0, 0, 8))

        def __reduce__(self) -> tuple[object, ...]:
            from spark_jobs.protocol.work import NoFailPoints

            return NoFailPoints, ()

    with pytest.raises(CommitConflict) as refused:
        lab.redrive(fail_points=Between())
    assert refused.value.code == "replay-overtaken"
    assert sorted(by_offset(lab, DEAD_LETTERS)) == [(0, 10), (0, 15)]
    assert lab.redrive().balance.rows == 2
    assert len(by_offset(lab)) == 20
    assert lab.audit().is_clean
    assert lab.stray_files() == set()


def test_an_archive_has_no_letters_to_send(labs: NewLab) -> None:
    """It is refused by name."""
    lab = labs(as_json({"id": 1}), layout="archive")
    lab.drain()
    with pytest.raises(ConfigError) as refused:
        lab.redrive()
    assert refused.value.code == "redrive-archive"
