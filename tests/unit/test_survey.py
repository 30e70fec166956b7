"""What a survey makes of topics and tables that can or cannot be read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.monitoring.survey import Problem, Surveyed, Surveyor, TableState
from spark_jobs.protocol.errors import RetryableError, SluiceError
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from collections.abc import Callable

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
    monkeypatch.setattr(surveyor, "sources", lambda *_: {"orders": source})
    monkeypatch.setattr(surveyor, "for_each_table", lambda *_: {"orders": table})
    (seen,) = surveyor.survey()
    assert isinstance(seen, Surveyed if expected[0] is None else Problem)
    assert (surveyor.refusals([seen])[0] if isinstance(seen, Problem) else None, seen.table) == expected


class Lake:
    """A topic and a table that a surveyor sees; counts its looks at both."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pipeline = PipelineConfig(name="orders", topic="orders", table="lake.orders")
        self.surveyor = Surveyor(
            SluiceConfig(home="/h", state="/s", catalog=CatalogSettings(properties={}), pipelines=(pipeline,))
        )
        self.ends, self.next_offset, self.seconds = [5], 5, 0.0
        self.table_looks = 0
        monkeypatch.setattr(self.surveyor, "sources", self._sources)
        monkeypatch.setattr(self.surveyor, "for_each_table", self._tables)
        monkeypatch.setattr("spark_jobs.monitoring.survey.time.monotonic", lambda: self.seconds)

    def _sources(self, *_: object) -> dict[str, SourceState]:
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        return {"orders": SourceState("orders", "id", "cluster", {0: 0}, {0: end})}

    def _tables(self, _read: object, pipelines: tuple[PipelineConfig, ...]) -> dict[str, TableState]:
        self.table_looks += len(pipelines)
        table = TableState(
            "uuid", Progress("orders", 0, {0: self.next_offset}), committed_at_ms=7, summary={}
        )
        return {pipeline.name: table for pipeline in pipelines}

    def lag(self) -> int:
        """The records that wait by one look."""
        (seen,) = self.surveyor.survey()
        assert isinstance(seen, Surveyed)
        assert seen.table is not None
        return seen.source.lag(seen.table.progress.next_offsets)


def test_a_table_at_rest_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again once records arrive, and as long as they wait: others commit, pause and resume."""
    lake = Lake(monkeypatch)
    looks = []
    for end, next_offset in ((5, 5), (5, 5), (7, 5), (7, 7), (7, 7)):
        lake.ends, lake.next_offset = [end], next_offset
        lake.lag()
        looks.append(lake.table_looks)
    assert looks == [1, 1, 2, 3, 3]


def test_a_change_of_a_table_at_rest_is_seen_within_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody rolled it back, which its topic does not show."""
    lake = Lake(monkeypatch)
    assert lake.lag() == 0
    lake.next_offset = 2
    lake.seconds = 59.9
    assert lake.lag() == 0
    lake.seconds = 60.0
    assert lake.lag() == 3


def test_a_commit_between_the_looks_at_topic_and_table_is_no_truncation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A table that is beyond its topic has the topic asked again; a topic that was really cut stays so."""
    lake = Lake(monkeypatch)
    lake.ends, lake.next_offset = [7, 9], 9
    assert lake.lag() == 0
    lake.ends = [3]
    (cut,) = lake.surveyor.survey()
    assert isinstance(cut, Surveyed)
    assert cut.source.end == {0: 3}


def _boom() -> None:
    raise AWAY


@pytest.mark.parametrize(
    ("second", "codes", "closes"),
    [
        (lambda: None, [None, None, None], True),
        (_boom, [None, "broker-away", None], True),
        (threading.Event().wait, [None, "table-unreadable", "table-unreadable"], False),
    ],
)
def test_a_catalog_that_is_silent_for_one_table_is_asked_for_no_other(
    monkeypatch: pytest.MonkeyPatch, second: Callable[[], object], codes: list[str | None], *, closes: bool
) -> None:
    """Tables read before it keep their state, and the catalog stays open for the thread that still waits."""
    pipelines = tuple(PipelineConfig(name=name, topic=name, table=f"lake.{name}") for name in ("a", "b", "c"))
    config = SluiceConfig(
        home="/h", state="/s", catalog=CatalogSettings(name="c", properties={}), pipelines=pipelines
    )
    catalog, closed, asked = object(), list[object](), list[str]()

    def load(given: object, name: str) -> None:
        assert given is catalog
        asked.append(name)
        if name == "lake.b":
            second()

    monkeypatch.setattr("spark_jobs.monitoring.survey.CATALOG_READERS", 1)
    monkeypatch.setattr("spark_jobs.connections.connect.open_catalog", lambda _: catalog)
    monkeypatch.setattr("spark_jobs.lake.tables.load_table", load)
    monkeypatch.setattr("spark_jobs.lake.catalog.close_catalog", closed.append)
    states = Surveyor(config, patience_seconds=0.2).for_each_table(lambda pipeline, _table: pipeline.name)
    found = [states[pipeline.name] for pipeline in pipelines]
    assert [each.code if isinstance(each, SluiceError) else None for each in found] == codes
    assert asked == ["lake.a", "lake.b", *(["lake.c"] if closes else [])]
    assert closed == ([catalog] if closes else [])
