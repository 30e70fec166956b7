"""``redrive``: what it says beforehand, and what it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import by_offset, configure, orders, progress
from tests.support.new_lab import DEAD_LETTERS, NewLab

if TYPE_CHECKING:
    from tests.cli.conftest import Sluice

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

HALF = {"half": {"type": "long", "sql": "CASE WHEN id % 5 = 0 THEN CAST('x' AS BIGINT) ELSE id END"}}
FEW = {"half": {"type": "long", "sql": "CASE WHEN id % 10 = 0 THEN CAST('x' AS BIGINT) ELSE id END"}}


def test_a_redrive_by_hand(sluice: Sluice, new_lab: NewLab) -> None:
    """A dry run changes nothing and says what comes; done, exactly that came, without Kafka."""
    lab = new_lab([*orders(0, 30), b"not json"], columns=HALF)
    lab.drain()
    configure(lab, "pipelines/orders", {"columns": FEW})
    configure(lab, "kafka", {"bootstrap.servers": "127.0.0.1:1"})
    environment = {"SLUICE_CONFIG": str(lab.path)}

    unreasoned = sluice("redrive", "orders", **environment)
    assert unreasoned.returncode == 2
    wanted = ("--phase", "transform", "--field", "half", "--offsets", "0:0-26")
    dry = sluice("redrive", "orders", *wanted, "--dry-run", "--json", **environment)
    assert dry.returncode == 0, dry.stderr
    told = json.loads(dry.stdout.splitlines()[-1])
    assert (told["rows"], told["failing"], told["filtered"]) == (3, {"transform": 3}, {})
    assert (
        "6 dead letters: 3 would become rows, 3 would fail again (transform 3), 0 would be filtered\n"
        in dry.stdout
    )
    assert "  0:10 (transform) " in dry.stdout
    assert progress(lab).redrives == 0

    done = sluice("redrive", "orders", *wanted, "--limit", "5", "--reason", "test", "--json", **environment)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["rows"], told["failing"], len(told["batches"])) == (2, {"transform": 3}, 1)
    assert sorted(offset for _, offset in by_offset(lab, DEAD_LETTERS)) == [0, 10, 20, 25, 30]
    shown = sluice("history", "orders", "--kind", "redrive", "--json", **environment)
    assert '"reason":"test"' in shown.stdout, shown.stderr
    again = sluice("redrive", "orders", "--field", "nothing", "--reason", "test", **environment)
    assert "redrove 0 dead letters in 0 commits" in again.stdout, again.stderr
