"""A batch above `dead_letters.stop_above` stops its pipeline before anything of it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import PIPELINE, configure, orders
from spark_jobs.protocol.errors import BadRecord
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


def test_a_format_that_changed_stops_the_pipeline_and_not_a_few_bad_records(new_lab: NewLab) -> None:
    """Nothing of the batch is committed, adopted or left behind, until the limit lets it through."""
    lab = new_lab([*orders(0, 60), *[b"broken"] * 9], dead_letters={"stop_above": "5%"})
    assert lab.drain().balance.dead_letters == 9
    new_lab.produce(lab, [*orders(60, 50), *[b"<order/>"] * 12])
    for _ in range(2):
        with pytest.raises(BadRecord) as raised:
            lab.drain()
        assert raised.value.code == "too-many-dead-letters"
        assert "12 of 62 records" in raised.value.message
        assert "0:119 (decode)" in raised.value.message
        assert "\n" not in str(raised.value)
        assert (lab.rows().num_rows, lab.rows(DEAD_LETTERS).num_rows) == (60, 9)
    configure(lab, f"pipelines/{PIPELINE}", {"dead_letters": {"stop_above": "20%"}})
    result = lab.drain()
    assert (result.recovery.adopted, result.balance.dead_letters) == ((), 12)
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.lag) == (110, 21, 0)
    assert lab.stray_files() == set()
