"""``status``: one word per pipeline, from its table and its topic; Dagster is not asked, so it is quick."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from cli import output
from cli.commands.state_word import PipelineFacts, PipelineState, judge
from cli.stand.run_record import read_up
from spark_jobs.config.file import load_config
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from spark_jobs.config.settings import SluiceConfig
    from spark_jobs.monitoring.survey import Surveyed, Surveyor


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def command(as_json: bool) -> int:
    """One state word per pipeline, its lag in records, last commit, since when, and what to type.

    \b
    new        no table yet; the first batch makes it
    caught-up  the table holds everything its topic holds
    behind     records wait and batches are being committed
    paused     an operator stopped its drains and said why
    held       a batch failed a quality gate, later ones wait      needs a person
    stalled    records wait and nothing was committed for long     needs a person
    failed     a drain would stop with the error shown             needs a person
    stopped    Sluice's own broker is meant and does not run       needs a person

    Exit code 0 when all is well, 1 when something needs a person.
    """  # noqa: D301  (click's mark for a block it must not wrap)
    config = load_config()
    seen = look(config)
    if as_json:
        output.json_line({"pipelines": [_to_json(facts, state) for facts, state in seen]})
    else:
        _print(seen)
    for problem in config.problems:
        click.echo(f"left out: {problem}", err=True)
    return 1 if config.problems or any(state.word.needs_person for _, state in seen) else 0


def look(config: SluiceConfig) -> list[tuple[PipelineFacts, PipelineState]]:
    """One look at every pipeline, in the configuration's order."""
    return [(facts, judge(facts)) for facts in _facts(config)]


def _facts(config: SluiceConfig) -> list[PipelineFacts]:
    from spark_jobs.monitoring.survey import (  # noqa: PLC0415  (pyiceberg: not for `--help`)
        Surveyed,
        Surveyor,
    )

    facts, up = [], read_up(config.home)
    tables = CommitTimes(config)
    surveyor = Surveyor(_with_topics_of_today(config))
    surveyed = surveyor.survey()
    for seen, refusal in zip(surveyed, surveyor.refusals(surveyed), strict=True):
        unknown = PipelineFacts(
            pipeline=seen.pipeline.name,
            topic=seen.pipeline.topic,
            table=seen.pipeline.table,
            freshness_seconds=seen.pipeline.freshness_seconds,
            now_ms=int(time.time() * 1000),
            is_running=config.has_broker or up is not None,
            running_since_ms=up.since_ms if up is not None else None,
        )
        if isinstance(seen, Surveyed):
            facts.append(_with_held(_with_survey(unknown, seen, refusal), seen, surveyor))
        else:
            committed_at_ms = tables.of(seen.pipeline.table)
            facts.append(replace(unknown, error=refusal, committed_at_ms=committed_at_ms))
    return facts


def _with_topics_of_today(config: SluiceConfig) -> SluiceConfig:
    """List the broker's topics anew when pipelines depend on them; as last listed when it does not answer."""
    from spark_jobs.connections.broker_topics import (  # noqa: PLC0415  (librdkafka: not for `--help`)
        refresh_topics,
    )

    try:
        return refresh_topics(config)
    except SluiceError as error:
        output.render_error(error)
        return config


def _with_survey(unknown: PipelineFacts, seen: Surveyed, refusal: SluiceError | None) -> PipelineFacts:
    if seen.table is None:
        return replace(unknown, lag=seen.source.lag({}))
    progress = seen.table.progress
    return replace(
        unknown,
        paused=progress.paused,
        committed_at_ms=seen.table.committed_at_ms,
        error=refusal,
        lag=seen.source.lag(progress.next_offsets) if refusal is None else None,
    )


def _with_held(facts: PipelineFacts, seen: Surveyed, surveyor: Surveyor) -> PipelineFacts:
    """With the batch that a drain would stop at; where nothing waits nothing is held."""
    if not facts.lag or facts.error is not None:
        return facts
    try:
        held = surveyor.held(seen, facts.now_ms * 1000)
    except SluiceError as error:
        return replace(facts, error=error)
    return replace(facts, held=held[0] if held else None)


class CommitTimes:
    """When tables last moved, for pipelines whose topic could not be asked about."""

    def __init__(self, config: SluiceConfig) -> None:
        self._config = config
        self._catalog: Catalog | None = None

    def of(self, identifier: str) -> int | None:
        """Milliseconds since the epoch; None when there is no table or no answer (the survey said which)."""
        from spark_jobs.config.secrets import resolve  # noqa: PLC0415
        from spark_jobs.lake.catalog import open_catalog  # noqa: PLC0415
        from spark_jobs.lake.tables import load_table  # noqa: PLC0415
        from spark_jobs.monitoring.survey import table_state  # noqa: PLC0415

        settings = self._config.catalog
        try:
            self._catalog = self._catalog or open_catalog(settings.name, resolve(settings.properties))
            table = load_table(self._catalog, identifier)
            return table_state(table, identifier).committed_at_ms if table is not None else None
        except SluiceError:
            return None


def _to_json(facts: PipelineFacts, state: PipelineState) -> dict[str, object]:
    return {
        "pipeline": facts.pipeline,
        "topic": facts.topic,
        "table": facts.table,
        "state": state.word.value,
        "lag": facts.lag,
        "last_commit": _iso(facts.committed_at_ms),
        "since": _iso(state.since_ms),
        "reason": state.reason,
        "type": state.next_step,
        "needs_person": state.word.needs_person,
    }


def _print(seen: list[tuple[PipelineFacts, PipelineState]]) -> None:
    output.table(
        ("pipeline", "state", "lag", "last commit", "since", "what to type"),
        [
            (f.pipeline, s.word.value, f.lag, _iso(f.committed_at_ms), _iso(s.since_ms), s.next_step or "-")
            for f, s in seen
        ],
        numbers=("lag",),
    )
    for facts, state in seen:
        if state.reason:
            output.say(f"{facts.pipeline}: {state.reason}")
    if not seen:
        output.say("no pipelines are configured: ./sluice init writes a configuration")


def _iso(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
