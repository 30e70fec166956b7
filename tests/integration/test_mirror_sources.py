"""Whose changes a mirror takes: those of one table of one source; what others tell stops it, by name."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from prove.lab.debezium_events import Source
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import progress
from spark_jobs.acts.accept_source import accept_restart, find_restart
from spark_jobs.acts.act import skip
from spark_jobs.protocol.errors import SourceChanged
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from tests.integration.test_mirror import new_lab

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

__all__ = ["new_lab"]
pytestmark = pytest.mark.kafka

OF = Source()
OWN = '{"connector":"postgresql","name":"shop","db":"shop","schema":"public","table":"orders"}'


def event(operation: str, key: int, lsn: int, **source: Any) -> Record:
    """Return a change of one key, told by the shop's orders unless ``source`` says otherwise."""
    row = {"id": key, "v": lsn} if operation in "cur" else None
    return Record(OF.event(operation, row, lsn=lsn, **source), key=None if operation == "t" else OF.key(key))


def flink(operation: str, key: int, v: int) -> Record:
    """Return a change as Flink's ``debezium-json`` writes it: it names no source."""
    row = {"id": key, "v": v}
    before, after = (row, None) if operation == "d" else (None, row)
    return Record(json.dumps({"before": before, "after": after, "op": operation}).encode(), key=OF.key(key))


def stopped(lab: Lab) -> tuple[str, str]:
    """Drain, which must stop; return the error's code and its words."""
    with pytest.raises(SourceChanged) as refused:
        lab.drain()
    return refused.value.code, str(refused.value)


def leave_out(lab: Lab, offset: int) -> None:
    """Skip the record that the mirror stands at."""
    with lab.connections() as connections:
        skip(lab.pipeline, connections, OffsetRanges([OffsetRange(0, offset, offset + 1)]), reason="foreign")


def keys(lab: Lab) -> dict[int, int]:
    """Return the mirror's rows: by key where they were told."""
    return {row["id"]: row["v"] for row in lab.rows().to_pylist()}


FOREIGN = (
    (  # another server, lower and earlier
        "another-source",
        event("c", 9, 50, name="other", ts_ms=1_600_000_000_000),
    ),
    ("another-source", event("c", 9, 900, name="other", ts_ms=1_800_000_000_000)),  # another server, later
    ("another-source", event("u", 1, 900, db="other")),  # another database
    ("another-table", event("u", 1, 900, table="customers")),  # another table's row of the same key
    ("another-table", event("d", 1, 900, table="customers")),  # another table's delete
    ("another-table", event("t", 0, 900, table="customers")),  # another table's truncate
    (  # another table's row in columns of other types
        "another-table",
        Record(OF.event("u", {"id": 1, "v": "text", "more": 1}, lsn=900, table="customers"), key=OF.key(1)),
    ),
    ("another-table", event("u", 1, 900, schema="archive")),  # another schema
)


def test_what_another_source_or_table_tells_stops_a_mirror(new_lab: NewLab) -> None:
    """By name, with both and the place, before anything of it is committed; what is before it is."""
    lab = new_lab([event("c", 1, 500), event("c", 2, 510)], layout="mirror")
    lab.drain()
    assert progress(lab).format_version == 5
    lsn = 510
    for code, record in FOREIGN:
        at, lsn = progress(lab).next_offsets[0] + 1, lsn + 10
        new_lab.produce(lab, [event("u", 2, lsn), record])
        found, words = stopped(lab)
        assert found == code
        assert f"0:{at}" in words
        assert OWN in words
        assert "layout: changes" in words
        assert keys(lab) == {1: 500, 2: lsn}
        leave_out(lab, at)
    lab.drain()
    assert keys(lab) == {1: 500, 2: lsn}
    assert "more" not in lab.table().schema().column_names
    assert lab.audit().is_clean


def test_of_two_sources_in_a_first_batch_the_first_is_the_mirrors(new_lab: NewLab) -> None:
    """Nothing of the other is committed."""
    lab = new_lab([event("c", 1, 500), event("c", 2, 50, name="other")], layout="mirror")
    found, words = stopped(lab)
    assert (found, keys(lab)) == ("another-source", {1: 500})
    assert '"name":"other"' in words


def test_a_server_that_takes_over_before_it_has_all_loses_no_row(new_lab: NewLab) -> None:
    """Its log is lower, its clock 3 s behind: what it tells is new, and comes in once that is accepted."""
    at = 1_700_000_000_123
    lab = new_lab([event("c", 1, 500, ts_ms=at), event("c", 2, 510, ts_ms=at)], layout="mirror")
    lab.drain()
    taken_over = [event("c", 3, 400, ts_ms=at - 3_000), event("u", 1, 410, ts_ms=at - 3_000)]
    new_lab.produce(lab, taken_over)
    code, words = stopped(lab)
    assert code == "source-restarted"
    assert "390, 400" in words
    with lab.connections() as connections:
        restart = find_restart(lab.pipeline, connections)
        assert restart is not None
        assert restart.firsts == {0: 2}
        accept_restart(lab.pipeline, connections, restart, reason="taken over")
    lab.drain()
    assert keys(lab) == {1: 410, 2: 510, 3: 400}


def test_what_a_killed_connector_tells_again_is_skipped_with_its_deletes(new_lab: NewLab) -> None:
    """Also in a batch that ends in between: each was told before, by the table's own files."""
    told = [
        event("c", 1, 500),
        event("c", 2, 510),
        event("u", 2, 520),
        event("d", 2, 530),
        event("u", 1, 540),
    ]
    lab = new_lab(told, layout="mirror")
    lab.drain()
    for part in ([told[1]], told[2:4], [told[4], event("c", 4, 600)]):
        new_lab.produce(lab, part)
        lab.drain()
    assert keys(lab) == {1: 540, 4: 600}
    assert lab.audit().is_clean


LOST = {
    "two servers": [event("c", 9, 50, name="other"), event("u", 9, 60, name="other")],
    "two tables": [event("u", 1, 900, table="customers"), event("d", 2, 910, table="customers")],
    "a truncate of one of two tables": [event("t", 0, 900, table="customers")],
    "a server that takes over": [event("c", 3, 400, ts_ms=1), event("u", 1, 410, ts_ms=1)],
}


@pytest.mark.parametrize("what", LOST)
def test_an_audit_names_a_mirror_that_an_earlier_version_made_wrong(new_lab: NewLab, what: str) -> None:
    """What came of two servers, two tables, or another log, when nobody asked whose changes they were."""
    lab = new_lab([event("c", 1, 500), event("c", 2, 510)], layout="mirror")
    lab.drain()
    new_lab.produce(lab, LOST[what])
    with pytest.MonkeyPatch.context() as before:
        before.setattr("spark_jobs.drain.mirror_fold.refuse_foreign", lambda *_: None)
        before.setattr("spark_jobs.drain.mirror_fold._refuse_restart", lambda *_: None)
        lab.drain()
    found = lab.audit()
    assert not found.is_clean
    is_other_log = "takes over" in what
    assert (found.foreign, found.missing + found.differing > 0) == (
        0 if is_other_log else len(LOST[what]),
        what != "two servers",
    )
    assert any(each.startswith("missing 0:2" if is_other_log else "foreign 0:2") for each in found.examples)


def test_a_mirror_of_before_takes_the_first_source_that_it_meets_and_says_so_once(
    new_lab: NewLab, caplog: pytest.LogCaptureFixture
) -> None:
    """From then on it is that one's; what earlier versions wrote named none, but all of it had one."""
    lab = new_lab([event("c", 1, 500)], layout="mirror")
    with pytest.MonkeyPatch.context() as before:
        before.setattr(
            "spark_jobs.mirror.fold._source", lambda events, _cdc: (None, np.zeros(len(events), bool))
        )
        lab.drain()
    cdc = progress(lab).cdc
    assert (cdc and cdc.source, progress(lab).format_version) == (None, 4)
    new_lab.produce(lab, [flink("c", 1, 9)])
    assert stopped(lab)[0] == "another-source"
    leave_out(lab, 1)
    with caplog.at_level(logging.WARNING):
        for lsn in (510, 520):
            new_lab.produce(lab, [event("u", 1, lsn)])
            lab.drain()
    said = [each.message for each in caplog.records if "now accepts only" in each.message]
    assert len(said) == 1
    assert OWN in said[0]
    assert progress(lab).format_version == 5


def test_changes_that_name_no_source_are_of_another_than_those_that_do(new_lab: NewLab) -> None:
    """In either order: offsets are the order of the ones, log positions that of the others."""
    for first, second in ((flink("c", 1, 7), event("u", 1, 500)), (event("c", 1, 7), flink("d", 1, 7))):
        lab = new_lab([first], layout="mirror")
        lab.drain()
        new_lab.produce(lab, [second])
        found, words = stopped(lab)
        assert (found, keys(lab)) == ("another-source", {1: 7})
        assert "a source without a name" in words
