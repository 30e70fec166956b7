"""An export whose records arrive slowly, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.export import ordered
from spark_jobs.export.ordered import OrderedProducer
from spark_jobs.protocol.errors import RetryableError


class _Uplink:
    """A producer from which so many records are left each time that one has waited."""

    def __init__(self, left: list[int]) -> None:
        self._left = left

    def __len__(self) -> int:
        return 10

    def flush(self, _seconds: float) -> int:
        return self._left.pop(0)

    def poll(self, _seconds: float) -> int:
        return 0


@pytest.mark.parametrize(("left", "is_slow"), [([7, 3, 0], False), ([7, 7], True), ([10], True)])
def test_an_export_waits_as_long_as_records_arrive(
    left: list[int], is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a slow uplink takes longer for than one wait is no broker that does not answer."""
    monkeypatch.setattr(ordered, "new_client", lambda *_: _Uplink(left))
    producer = OrderedProducer({}, "t", {0: 0})
    if is_slow:
        with pytest.raises(RetryableError, match="export-slow"):
            producer.finish()
    else:
        producer.finish()
    assert left == list[Any]()
