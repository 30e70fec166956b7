"""What Dagster is told without a run: what the command line did, and what the sensor sees of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import AssetKey, DagsterInstance

from assets.reports import instance_home, report_result
from cli.work import tell_dagster
from orchestration.backlog_sensor import topic_observations
from resources.sluice import Sluice
from servers.dagster import prepare_dagster_home
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.drain.drain import DrainResult
from spark_jobs.monitoring.survey import Surveyed
from spark_jobs.protocol.source import SourceState
from spark_jobs.recovery.decide import RecoveryResult
from spark_jobs.replay.replay import ReplayResult
from spark_jobs.upkeep.upkeep import UpkeepResult

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PIPELINE = PipelineConfig(name="a", topic="a", table="lake.a")


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
    """What is as it was is told of what nobody told of, if there is a table; after that only news counts."""
    prepare_dagster_home(tmp_path)
    again = ReplayResult("a", "lake.a", (), (), (), RecoveryResult())
    tidied = UpkeepResult("compaction", ())
    for result in (again, again, DrainResult("a", "lake.a", "caught-up", None), tidied, tidied):
        report_result(tmp_path, PIPELINE, result, "ada@box")
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        told = {
            key.to_user_string(): len(instance.fetch_materializations(key, limit=10).records)
            for key in instance.all_asset_keys()
        }
        event = instance.get_latest_materialization_event(AssetKey(["upkeep", "compaction_a"]))
    assert told == {"replay/replay_a": 1, "upkeep/compaction_a": 2}
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert (metadata["milliseconds"].value, metadata["done by"].value) == (0, "ada@box")


def test_trouble_with_dagster_is_a_line_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work is done and committed by then; without an instance there is nothing to say."""
    broken = tmp_path / "home" / "dagster" / "dagster.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("no_such_key: 1\n")
    monkeypatch.chdir(tmp_path)
    for home in ("home", "elsewhere"):
        monkeypatch.setenv("SLUICE_HOME", str(tmp_path / home))
        tell_dagster(PIPELINE, UpkeepResult("compaction", ()))
    assert capsys.readouterr().err.count("Could not report to Dagster: ") == 1


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
    assert [len(observed(8, 2e7 + n, topics=100)) for n in range(11)] == [*[10] * 10, 0]
    assert observed(9, 2e7 + 5999, topics=100) == []
    assert len(observed(9, 2e7 + 6009, topics=100)) == 10


def _look(topic: str, end: dict[int, int]) -> Surveyed:
    source = SourceState(topic, "id", "cluster", low=dict.fromkeys(end, 0), end=end)
    return Surveyed(PipelineConfig(name="a", topic=topic, table=f"lake.{topic}"), source, None)
