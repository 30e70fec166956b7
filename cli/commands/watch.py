"""``watch``: the process of ``up`` that serves metrics and the catalog and prints the pipelines' state.

These need the libraries of Kafka, Arrow and Iceberg: this process imports them once, the supervisor never.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Thread
from typing import TYPE_CHECKING

import click

from cli import output
from cli.commands.state_word import PipelineFacts, PipelineState, StateWord
from servers.light_process import leave_pandas_out
from spark_jobs.config.file import load_config
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.texts import count

if TYPE_CHECKING:
    from spark_jobs.config.settings import SluiceConfig

LOOK_EVERY_SECONDS = 30.0
_GOES_ITS_WAY = frozenset({StateWord.CAUGHT_UP, StateWord.BEHIND})


@click.command("watch", hidden=True)
@click.option("--metrics", type=int, help="Port of the metrics.")
@click.option("--catalog", type=int, help="Port of the catalog server.")
@click.option("--insecure", is_flag=True, help="Allow other machines to use them without tokens.")
def command(metrics: int | None, catalog: int | None, insecure: bool) -> None:
    """Serve metrics and the catalog, and print the pipelines' state, for `./sluice up` until SIGTERM."""
    leave_pandas_out()
    from cli.commands.catalog import serve_catalog
    from cli.commands.metrics import serve_metrics

    config = load_config()
    with ExitStack() as stack, suppress(KeyboardInterrupt):
        served = [
            stack.enter_context(serve(config, port, insecure=insecure))
            for serve, port in ((serve_metrics, metrics), (serve_catalog, catalog))
            if port is not None
        ]
        _watch(config, served)


def _watch(config: SluiceConfig, served: Sequence[Thread]) -> None:
    """Print the state of the pipelines as configured at the time; end with a listener, to be restarted."""
    from cli.commands.status import look, up_state

    words: dict[str, StateWord] = {}
    while all(thread.is_alive() for thread in served):
        config = _as_it_is_now(config)
        seen = look(config)
        first, *others = look_lines(seen, words)
        ticks = up_state(config.home, int(time.time() * 1000))
        others += [f"  {ticks.sentence}"] if ticks.is_silent else []
        output.say("\n".join([f"{time.strftime('%H:%M:%S')}  {first}", *others]))
        words = {facts.pipeline.name: state.word for facts, state in seen}
        time.sleep(LOOK_EVERY_SECONDS)


def _as_it_is_now(before: SluiceConfig) -> SluiceConfig:
    """Return the configuration as it is now; the old one on mistakes, which ``up`` prints."""
    try:
        return load_config()
    except SluiceError:
        return before


def look_lines(
    seen: Sequence[tuple[PipelineFacts, PipelineState]], before: Mapping[str, StateWord]
) -> Iterator[str]:
    """Yield the number of pipelines by state, then those whose state changed or needs action.

    Changes between behind and caught-up are only counted. Equal lines are printed once with all names; the
    reason is printed when the state begins.
    """
    counted = (_counted(word, [facts for facts, state in seen if state.word is word]) for word in StateWord)
    yield f"{count(len(seen), 'pipeline')}: {', '.join(filter(None, counted)) or 'none is configured'}"
    alike: dict[str, list[str]] = defaultdict(list)
    for facts, state in seen:
        was = before.get(facts.pipeline.name)
        has_changed = was is not None and was is not state.word and not {was, state.word} <= _GOES_ITS_WAY
        if was is state.word and state.word.needs_person:
            alike[f"still {was}; see ./sluice status"].append(facts.pipeline.name)
        elif has_changed or state.word.needs_person:
            alike[_describe(state, was if has_changed else None)].append(facts.pipeline.name)
    for sentence, names in alike.items():
        yield f"  {output.few(names)}: {sentence}"


def _counted(word: StateWord, having: Sequence[PipelineFacts]) -> str:
    lag = sum(facts.lag or 0 for facts in having)
    waiting = f" ({count(lag, 'record')})" if lag else ""
    return f"{len(having):,} {word}{waiting}" if having else ""


def _describe(state: PipelineState, was: StateWord | None) -> str:
    now = f"{was}, now {state.word}" if was else state.word.value
    return (
        now
        + (f": {state.reason}" if state.reason else "")
        + (f"\n    {state.next_step}" if state.next_step else "")
    )
