"""What Dagster is told without a run: what the command line did, and what the sensor sees of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from dagster import AssetKey, DagsterInstance

from assets.told import instance_home, tell
from cli.work import tell_dagster
from orchestration.topic_observations import topic_observations
from resources.sluice import Sluice
from servers.dagster import prepare_dagster_home
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.monitoring.survey import Surveyed
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from pathlib import Path

KEY = AssetKey(["lake", "orders"])


def test_the_instance_of_up_is_told_before_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that Dagster has never used is no instance; nothing is made there."""
    ours, theirs = tmp_path / "home" / "dagster", tmp_path / "theirs"
    monkeypatch.setenv("DAGSTER_HOME", str(theirs))
    assert instance_home(str(tmp_path / "home")) is None
    prepare_dagster_home(theirs)
    assert instance_home(str(tmp_path / "home")) == theirs
    prepare_dagster_home(ours)
    assert instance_home(str(tmp_path / "home")) == ours


def test_a_table_filled_by_hand_is_materialized_and_no_news_is_told_once(tmp_path: Path) -> None:
    """A drain with nothing to do tells of a table that nobody told of; after that only new batches count."""
    prepare_dagster_home(tmp_path)
    for is_news in (False, False, True):
        tell(tmp_path, KEY, {"dagster/row_count": 7}, actor="ada@box", is_news=is_news)
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        records = instance.fetch_materializations(KEY, limit=10).records
    told = [record.asset_materialization for record in records]
    assert len(told) == 2
    assert told[0] is not None
    assert {key: value.value for key, value in told[0].metadata.items()} == {
        "dagster/row_count": 7,
        "done by": "ada@box",
    }


def test_trouble_with_dagster_is_a_line_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work is done and committed by then."""
    broken = tmp_path / "home" / "dagster" / "dagster.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("no_such_key: 1\n")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    tell_dagster(lambda: (KEY, {}))
    assert capsys.readouterr().err.startswith("Dagster was not told of this: ")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "elsewhere"))
    tell_dagster(lambda: pytest.fail("nobody is there to be told"))


def test_topics_are_observed_on_change_and_seldom() -> None:
    """Dagster never deletes an observation: an idle topic gives one, a busy one, one an hour."""
    config = SluiceConfig(home="/nowhere", state="/nowhere/log", catalog=CatalogSettings(properties={}))
    sluice = Sluice(config)

    def observed(end: int, now: float, topics: int = 1) -> list[object]:
        looks = [_look(f"t{n}", {0: end, 1: 2}) for n in range(topics)]
        return [event.metadata["lag_a"].value for event in topic_observations(looks, sluice, now)]

    assert observed(5, 0.0) == [7]
    assert observed(5, 9e6) == []
    assert observed(6, 9e6) == [8]
    assert observed(7, 9e6 + 3599) == []
    assert observed(7, 9e6 + 3600) == [9]
    assert len(observed(8, 2e7, topics=100)) == 100
    assert observed(9, 2e7 + 5999, topics=100) == []
    assert len(observed(9, 2e7 + 6000, topics=100)) == 100


def _look(topic: str, end: dict[int, int]) -> Surveyed:
    source = SourceState(topic, "id", "cluster", low=dict.fromkeys(end, 0), end=end)
    return Surveyed(PipelineConfig(name="a", topic=topic, table=f"lake.{topic}"), source, None)
