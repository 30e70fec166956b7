"""``serve``: follow topics in memory and answer queries over them and their tables."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import connections_for, listener_options, pipelines_named
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_SERVE
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.protocol.errors import fault, needs

if TYPE_CHECKING:
    from spark_jobs.hot.follower import Follower
    from spark_jobs.hot.tail_status import TailStatus

_LOOK_SECONDS = 0.5
_TELL_SECONDS = 5.0  # how often of one that goes on catching up


@click.command("serve")
@click.argument("pipelines", nargs=-1)
@listener_options("serve", "ask")
def command(pipelines: tuple[str, ...], port: int | None, *, insecure: bool) -> None:
    """Answer queries over tables and records in Kafka that are not drained yet, until Ctrl-C. Reads only.

    Follows PIPELINES, or all pipelines with `hot: true`. It joins no consumer group and stores no progress:
    several can run, and after a kill it starts again at the tables' offsets. `./sluice up` starts it if a
    pipeline is `hot`. The HTTP API is described in docs/reference/serving.md.
    """
    with needs("serve"):
        from servers.asking import lake_id
        from servers.listener import bound_at
        from servers.serving import flight_beside, serve
        from serving.http_api import HttpApi, refusal_body
        from serving.service import QueryService
    from spark_jobs.hot.follower import Follower

    config = load_config()
    chosen = _followed(config, pipelines)
    with connections_for(config, chosen[0], "query") as connections:
        noted, memory_bytes = Path(config.home) / "serve", config.serve.memory_bytes
        follower = Follower(chosen, connections, folder=noted, memory_bytes=memory_bytes)
        follower.start()
        with (
            closing(follower),
            closing(QueryService(chosen, connections, follower, config.serve)) as service,
            _telling(follower),
            flight_beside(
                service, config.serve, lambda at: output.say(f"Flight SQL at {at}"), insecure=insecure
            ),
        ):
            serve(
                HttpApi(service, lake_id(config)).app(),
                config.serve,
                bound_at(config.serve.listen or DEFAULT_SERVE, port),
                lambda url: output.say(f"answering at {url}" if url else "stopped"),
                insecure=insecure,
                guard={"refused": lambda why: refusal_body(why.status, why.reason)},
            )


def _followed(config: SluiceConfig, names: Sequence[str]) -> list[PipelineConfig]:
    """Return the pipelines of these names, or all hot ones."""
    chosen = [pipeline for name in names for pipeline in pipelines_named(config, name)]
    chosen = chosen or [pipeline for pipeline in config.pipelines if pipeline.hot]
    cold = [pipeline.name for pipeline in chosen if not pipeline.hot]
    never = [pipeline.name for pipeline in chosen if not pipeline.can_be_hot]
    if never:
        raise fault("hot-not-configured.never", never=", ".join(never))
    if cold or not chosen:
        raise fault("hot-not-configured.serve", cold=", ".join(cold) or "no pipeline")
    return list({pipeline.name: pipeline for pipeline in chosen}.values())


@contextmanager
def _telling(tails: Follower) -> Iterator[None]:
    """Print a line when a pipeline's state changes, and progress while it catches up."""
    is_over = threading.Event()
    teller = threading.Thread(target=_tell, args=(tails, is_over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _tell(tails: Follower, is_over: threading.Event) -> None:
    from spark_jobs.hot.tail_status import State

    printed: dict[str, tuple[object, float]] = {}
    while not is_over.wait(_LOOK_SECONDS):
        for status in tails.statuses():
            state = (status.state, status.reason and status.reason.code)
            before, at = printed.get(status.pipeline, (None, 0.0))
            is_going_on = status.state is State.CATCHING_UP and time.monotonic() - at > _TELL_SECONDS
            if state != before or is_going_on:
                output.say(_line(status))
                printed[status.pipeline] = (state, time.monotonic())


def _line(status: TailStatus) -> str:
    rows = output.count(status.hot_rows, "row")
    held = f"{status.pipeline}: {status.state}, {rows}, {status.size_bytes / 1e6:,.1f} MB"
    reason = status.reason
    return held if reason is None else f"{held}; {reason.message} [{reason.code}] {reason.hint}"
