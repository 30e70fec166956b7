"""What a survey makes of topics and tables that can or cannot be read."""

from __future__ import annotations

import pytest

from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.monitoring.survey import Problem, Surveyed, Surveyor, TableState
from spark_jobs.protocol.errors import RetryableError, SluiceError
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState

AWAY = RetryableError("no broker answers", code="broker-away", hint="Start it.")
BROKEN = RetryableError("no file", code="table-unreadable", hint="Look.")
SOURCE = SourceState("orders", "id", "cluster", {0: 0}, {0: 9})
TABLE = TableState("uuid", Progress("orders", 0, {0: 5}), committed_at_ms=7, summary={})


@pytest.mark.parametrize(
    ("source", "table", "expected"),
    [
        (SOURCE, TABLE, (None, TABLE)),
        (SOURCE, None, (None, None)),
        (AWAY, TABLE, (AWAY, TABLE)),
        (SOURCE, BROKEN, (BROKEN, None)),
        (AWAY, BROKEN, (AWAY, None)),
    ],
)
def test_a_table_is_told_of_although_its_topic_is_away(
    monkeypatch: pytest.MonkeyPatch,
    source: SourceState | SluiceError,
    table: TableState | SluiceError | None,
    expected: tuple[SluiceError | None, TableState | None],
) -> None:
    """What could be read stands beside the error of what could not, the topic's first."""
    pipeline = PipelineConfig(name="orders", topic="orders", table="lake.orders")
    config = SluiceConfig(
        home="/h", state="/s", catalog=CatalogSettings(name="c", properties={}), pipelines=(pipeline,)
    )
    surveyor = Surveyor(config)
    monkeypatch.setattr(surveyor, "sources", lambda: {"orders": source})
    monkeypatch.setattr(surveyor, "for_each_table", lambda _read: {"orders": table})
    (seen,) = surveyor.survey()
    assert isinstance(seen, Surveyed if expected[0] is None else Problem)
    assert (surveyor.refusals([seen])[0] if isinstance(seen, Problem) else None, seen.table) == expected
