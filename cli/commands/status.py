"""``status``: state of each pipeline from its table and topic, without asking Dagster."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import click

from cli.commands.state_word import PipelineFacts, PipelineState, judge
from cli.output import Report, render_error, reported, when_ms
from cli.stand.run_record import UpRecord, read_up
from cli.work import pipelines_named
from servers.asking import followed
from spark_jobs.checks.check import spoken_duration
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.broker_topics import refresh_topics
from spark_jobs.connections.endpoints import SILENT_SECONDS, last_beat_ms, read_endpoints
from spark_jobs.monitoring.checkup import waits_since_ms
from spark_jobs.monitoring.survey import TOPIC_READERS, Problem, Surveyed, Surveyor
from spark_jobs.notices.failures import last_failures
from spark_jobs.notices.notice import DRAIN
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import cut_at_shapes, is_outdated


@click.command("status")
@click.argument("pipeline", required=False)
@reported
def command(report: Report, pipeline: str | None) -> int:
    """Show the state, lag in records and last commit of each pipeline, or of PIPELINE, and what to type.

    \b
    new        no table yet; the first batch creates it
    caught-up  the table has every record of the topic
    behind     records wait; batches are being committed or the next scheduled drain takes them
    paused     an operator paused the drains
    held       a batch failed a quality gate; later ones wait     needs action
    stalled    records wait and nothing was committed for long    needs action
    failed     the last drain failed, or the next one would       needs action
    stopped    the embedded broker is not running                 needs action

    Exit code 1 if a pipeline needs action, else 0.
    """  # noqa: D301  (click's mark for a block it must not wrap)
    config = _with_topics_of_today(load_config())
    seen = _look(config, pipeline)
    up = up_state(config.home, int(time.time() * 1000))
    hot = _followed(config, {facts.pipeline.name for facts, _ in seen if facts.pipeline.hot})
    report.add(pipelines=[_to_json(facts, state) for facts, state in seen])
    report.add(**up.to_json(), **({} if hot is None else {"followed": hot}))
    tell(report, seen)
    if hot:
        _tell_followed(report, hot)
    report.say(up.sentence)
    for problem in config.problems:
        click.echo(f"left out: {problem}", err=True)
    needs_person = up.is_silent or any(state.word.needs_person for _, state in seen)
    return 1 if config.problems or needs_person else 0


def look(config: SluiceConfig, pipeline: str | None = None) -> list[tuple[PipelineFacts, PipelineState]]:
    """Return facts and state of every pipeline in configuration order, or of the named one."""
    return _look(_with_topics_of_today(config), pipeline)


def _look(config: SluiceConfig, pipeline: str | None) -> list[tuple[PipelineFacts, PipelineState]]:
    chosen = config.model_copy(update={"pipelines": pipelines_named(config, pipeline)})
    return [(facts, judge(facts)) for facts in _facts(chosen)]


def _facts(config: SluiceConfig) -> list[PipelineFacts]:
    up, surveyor = read_up(config.home), Surveyor(config)
    surveyed, trouble = surveyor.survey(), read_endpoints(config.home).trouble

    def look_at(seen: Surveyed | Problem, refusal: SluiceError | None) -> PipelineFacts:
        unknown = PipelineFacts(
            pipeline=seen.pipeline,
            now_ms=int(time.time() * 1000),
            is_running=config.has_broker or up is not None,
            running_since_ms=up.since_ms if up is not None else None,
            committed_at_ms=seen.table.committed_at_ms if seen.table is not None else None,
            error=refusal,
        )
        if isinstance(seen, Surveyed):
            unknown = _with_held(_with_lag(unknown, seen, surveyor), seen, surveyor)
        return _with_failures(replace(unknown, error=unknown.error or trouble), config.home)

    with ThreadPoolExecutor(TOPIC_READERS) as readers:
        return list(readers.map(look_at, surveyed, surveyor.refusals(surveyed)))


def _with_topics_of_today(config: SluiceConfig) -> SluiceConfig:
    """Refresh the list of topics if pipelines depend on it; keep the last list if the broker is away."""
    try:
        return refresh_topics(config)
    except SluiceError as error:
        render_error(error)
        return config


def _with_lag(facts: PipelineFacts, seen: Surveyed, surveyor: Surveyor) -> PipelineFacts:
    """Add lag and waiting time to the facts; without a lag if a drain would refuse the offsets."""
    progress = seen.table.progress if seen.table is not None else None
    lag = seen.source.lag(progress.next_offsets if progress else {}) if facts.error is None else None
    undecided = sum(seen.source.undecided.values())
    since_ms = waits_since_ms(surveyor, seen) if lag else None
    facts = replace(facts, lag=lag, undecided=undecided, waiting_since_ms=since_ms)
    if progress is None:
        return facts
    return replace(facts, paused=progress.paused, is_outdated=_is_outdated(seen, progress))


def _is_outdated(seen: Surveyed, progress: Progress) -> bool:
    """True if rows of records that Kafka still holds come from another configuration (not schema files)."""
    if seen.pipeline.value.file or seen.pipeline.record_key.file:
        return False
    from spark_jobs.connections.connect import shape_digest

    today, low = shape_digest(seen.pipeline, {}), seen.source.low
    reached = progress.next_offsets.items()
    kept = (OffsetRange(p, low.get(p, 0), end) for p, end in reached if low.get(p, 0) < end)
    shapes = (shape for whole in kept for _, shape in cut_at_shapes(whole, progress.shaped_by))
    return any(is_outdated(shape, today) for shape in shapes)


def _with_held(facts: PipelineFacts, seen: Surveyed, surveyor: Surveyor) -> PipelineFacts:
    """Add the held batch that stops drains, if records wait."""
    if not facts.lag or facts.error is not None:
        return facts
    try:
        held = surveyor.held(seen, facts.now_ms * 1000)
    except SluiceError as error:
        return replace(facts, error=error)
    return replace(facts, held=held[0] if held else None)


def _with_failures(facts: PipelineFacts, home: str) -> PipelineFacts:
    """Add the last failure of each kind of work on this machine; of drains only while records wait."""
    found = last_failures(home, facts.pipeline.name, facts.committed_at_ms)
    return replace(facts, failures={work: each for work, each in found.items() if facts.lag or work != DRAIN})


def _to_json(facts: PipelineFacts, state: PipelineState) -> dict[str, object]:
    return {
        "pipeline": facts.pipeline.name,
        "topic": facts.pipeline.topic,
        "table": facts.pipeline.table,
        "state": state.word.value,
        "lag": facts.lag,
        "undecided": facts.undecided,
        "last_commit": when_ms(facts.committed_at_ms),
        "since": when_ms(state.since_ms),
        "next_drain": when_ms(facts.next_drain_ms),
        "reason": state.reason,
        "type": state.next_step,
        "needs_person": state.word.needs_person,
    }


def tell(report: Report, seen: list[tuple[PipelineFacts, PipelineState]]) -> None:
    """Print the table of states, then each problem once."""
    report.table(
        ("pipeline", "state", "lag", "last commit", "since", "what to type"),
        [
            (
                facts.pipeline.name,
                state.word.value,
                facts.lag,
                when_ms(facts.committed_at_ms),
                when_ms(state.since_ms),
                _command_in(state.next_step),
            )
            for facts, state in seen
        ],
        numbers=("lag",),
    )
    # A broker that is away is one trouble, however many pipelines have it.
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for facts, state in seen:
        if state.reason:
            hint = state.next_step if _command_in(state.next_step) != state.next_step else ""
            reasons[state.reason, hint].append(facts.pipeline.name)
    for (reason, hint), names in reasons.items():
        report.say(f"{', '.join(names)}: {reason}" + (f"\n  {hint}" if hint else ""))
    due: dict[int, list[str]] = defaultdict(list)
    for facts, _ in seen:
        if (at_ms := facts.next_drain_ms) is not None:
            due[at_ms].append(facts.pipeline.name)
    for at_ms, names in sorted(due.items()):
        report.say(f"next drain by schedule at {when_ms(at_ms)}: {', '.join(names)}")
    if not seen:
        report.say("no pipelines are configured: ./sluice init writes a configuration")


def _followed(config: SluiceConfig, names: set[str]) -> list[dict[str, Any]] | None:
    """Return the progress of a running ``serve`` with these pipelines; print an error of its own."""
    try:
        found = followed(config) if names else None
    except SluiceError as error:
        render_error(error)
        return None
    return None if found is None else [each for each in found if each["pipeline"] in names]


def _tell_followed(report: Report, hot: Sequence[dict[str, Any]]) -> None:
    """Print the rows that `serve` holds for each pipeline, and why it holds no more."""
    report.heading("Records in Kafka that `serve` can query")
    rows = [
        (h["pipeline"], h["state"], h["hot_rows"], f"{h['hot_bytes'] / 1e6:.1f}", h["age_ms"], h["watermark"])
        for h in hot
    ]
    report.table(
        ("pipeline", "state", "rows", "MB", "age ms", "watermark"), rows, numbers=("rows", "MB", "age ms")
    )
    for each in hot:
        if reason := each["reason"]:
            report.say(f"{each['pipeline']}: {reason['message']} [{reason['code']}]\n  {reason['hint']}")


def _command_in(next_step: str) -> str:
    """Return the step if it is a command; other hints are printed below the table."""
    if next_step.startswith("./sluice"):
        return next_step
    return "see below" if next_step else "-"


_HINT = (
    "Turn on backlog_sensor in the UI if it is off. Otherwise run ./sluice down, then ./sluice up."
    " See logs/dagster-code-sluice.log in the state folder."
)


@dataclass(frozen=True, slots=True)
class UpState:
    """State of ``up`` (None if none runs) and of the sensors; ``ticked_ms`` is a sensor's last tick."""

    up: UpRecord | None
    ticked_ms: int | None
    now_ms: int
    spark_asleep: bool = False

    @property
    def quiet_seconds(self) -> float:
        """Return the seconds since the last sensor tick, or since ``up`` started if that is less."""
        since_ms = self.up.since_ms if self.up else 0
        return max(0, self.now_ms - max(since_ms, self.ticked_ms or 0)) / 1000

    @property
    def is_silent(self) -> bool:
        """True if ``up`` runs and no sensor ticks; a demo has no sensor."""
        runs = self.up is not None and self.up.command == "./sluice up"
        return runs and self.quiet_seconds > SILENT_SECONDS

    @property
    def sentence(self) -> str:
        """Return the state in a line, with a hint if action is needed."""
        quiet = spoken_duration(self.quiet_seconds)
        if self.is_silent:
            return f"no sensor has ticked for {quiet}: drains do not start automatically\n  {_HINT}"
        has_ticked = self.ticked_ms is not None and (self.up is None or self.ticked_ms >= self.up.since_ms)
        ticked = f"; a sensor last ticked {quiet} ago" if has_ticked else ""
        if self.up is not None:
            asleep = "; Spark is asleep and starts with the next run" if self.spark_asleep else ""
            return f"`{self.up.command}` has been running since {when_ms(self.up.since_ms)}{ticked}{asleep}"
        return f"`up` is not running with this state folder{ticked or '; start it with ./sluice up'}"

    def to_json(self) -> dict[str, Any]:
        """Return the state for ``--json``."""
        return {
            "up": self.up,
            "last_tick": when_ms(self.ticked_ms),
            "is_silent": self.is_silent,
            "spark_asleep": self.spark_asleep,
        }


def up_state(home: str, now_ms: int) -> UpState:
    """Read the state of ``up`` from the state folder."""
    return UpState(read_up(home), last_beat_ms(home), now_ms, read_endpoints(home).spark_asleep)
