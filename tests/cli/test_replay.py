"""``replay``: what it shows before, what it asks, what it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, progress
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import Change, diff_replay
from spark_jobs.replay.plan import plan_replay
from tests.support.new_lab import NewLab, as_json

if TYPE_CHECKING:
    from tests.cli.conftest import Sluice

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_a_replay_by_hand(sluice: Sluice, new_lab: NewLab) -> None:
    """A dry run, and a comparison that nobody confirms, change nothing; --yes replaces exactly the range."""
    lab = new_lab(
        [Record(json.dumps({"id": n}).encode(), timestamp_ms=1_767_225_600_000 + n * 1000) for n in range(20)]
    )
    lab.drain()
    new_lab.produce(lab, [json.dumps({"id": n}).encode() for n in range(20, 25)])
    before = by_offset(lab)
    environment = {"SLUICE_CONFIG": str(lab.path)}
    ranges = ("--range", "0:2-5", "--range", "0:10-30")

    dry = sluice("replay", "orders", *ranges, "--dry-run", "--json", **environment)
    assert dry.returncode == 0, dry.stderr
    told = json.loads(dry.stdout.splitlines()[-1])
    assert (told["ranges"], told["records"]) == (["0:2-5", "0:10-20"], 13)
    assert (told["ahead"], told["beyond_end"]) == (["0:20-25"], ["0:25-30"])
    assert "not drained yet, left to the next drain: 0:20-25\n" in dry.stdout
    assert "after the end of the topic, nothing to read: 0:25-30\n" in dry.stdout
    assert (told["files_dropped"], told["files_rewritten"], told["compacted"]) == (0, 1, False)

    unasked = sluice("replay", "orders", *ranges, "--diff", "--reason", "test", **environment)
    assert unasked.returncode == 0, unasked.stderr
    assert "add --yes" in unasked.stdout
    assert not [line for line in unasked.stdout.splitlines() if line != line.rstrip()], "numbers go right"
    shown = sluice("replay", "orders", *ranges, "--diff", **environment)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "nothing was changed"), shown.stderr
    assert progress(lab).replay_epoch == 0

    done = sluice("replay", "orders", *ranges, "--diff", "--yes", "--reason", "test", "--json", **environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["rows"], told["diff"]["rows_same"]) == (13, 13)
    changed = {offset for (_, offset), row in by_offset(lab).items() if row != before[0, offset]}
    assert changed == {*range(2, 5), *range(10, 20)}

    first, last = ("--from", "2026-01-01T00:00:05Z"), ("--to", "2026-01-01T00:00:08Z")
    for span, drained in (
        ((*first, *last), "0:5-8"),
        (first, "0:5-20"),
        (last, "0:0-8"),
        (("--all",), "0:0-20"),
    ):
        timed = sluice("replay", "orders", *span, "--dry-run", "--json", **environment)
        assert json.loads(timed.stdout.splitlines()[-1])["ranges"] == [drained]
    unreasoned = sluice("replay", "orders", "--range", "0:2-5", **environment)
    assert unreasoned.returncode == 2
    assert "--reason is required" in unreasoned.stderr


def test_the_comparison_names_what_would_change(new_lab: NewLab) -> None:
    """Rows added and changed, new columns, dead letters that become rows; nothing is written."""
    lab = new_lab(as_json({"id": 1, "n": "a"}, {"id": 2, "v": "x"}, {"id": 3}), columns={"v": "long"})
    lab.drain()
    with lab.table().update_schema() as update:
        update.delete_column("v").delete_column("n")
    configure(lab, "pipelines/orders", {"columns": {"v": "string"}})
    main = lab.table().metadata.current_snapshot_id
    with lab.connections() as connections:
        plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 3)])
        found = diff_replay(lab.pipeline, connections, plan)
    assert (found.rows_same, found.rows_added, found.rows_removed, found.rows_changed) == (1, 1, 0, 1)
    assert (found.dead_letters_added, found.dead_letters_removed) == (0, 1)
    assert found.columns_added == ["v: string", "n: string"]
    assert found.changed_by_column == {"n": 1}
    assert found.examples == [Change("0:0", "n", "null", "a")]
    assert lab.table().metadata.current_snapshot_id == main
