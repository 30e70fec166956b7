"""Helpers shared by commands: pipelines by name, connections, options, reports to Dagster, audit verdict."""

from __future__ import annotations

import getpass
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from cli import output
from resources.sluice import open_connections
from spark_jobs.config.file import load_config, load_written
from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.protocol.errors import ConfigError, fault

if TYPE_CHECKING:
    from assets.reports import Done
    from spark_jobs.audit.counts import AuditResult
    from spark_jobs.connections.connect import Connections

_T = TypeVar("_T")
DEFAULT_LIMIT = 20
_Command = TypeVar("_Command", bound=Callable[..., Any])


class Work(NamedTuple):
    """A pipeline and its connections, in the argument order of the functions that take both."""

    pipeline: PipelineConfig
    connections: Connections


class Read(click.ParamType[_T]):
    """Parameter type that parses text by ``read``; ``is_not`` describes a rejected value."""

    def __init__(self, name: str, read: Callable[[str], _T], is_not: str) -> None:
        self.name, self._read, self._is_not = name, read, is_not

    def convert(self, value: str | _T, param: click.Parameter | None, ctx: click.Context | None) -> _T:
        """Parse the value, unless it is an already parsed default."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except (ValueError, ConfigError):
            self.fail(f"{value!r} is {self._is_not}", param, ctx)


def pipelines_named(config: SluiceConfig, name: str | None) -> tuple[PipelineConfig, ...]:
    """Return the pipeline of that name, or all for None. Raises ``ConfigError`` listing the known names."""
    if name is None:
        return config.pipelines
    pipeline = config.pipeline(name)
    if pipeline is None:
        known = ", ".join(p.name for p in config.pipelines) or "none"
        raise fault("no-such-pipeline", name=name, known=known)
    return (pipeline,)


@contextmanager
def opened(name: str, kind: str, *, needs_kafka: bool = True) -> Iterator[Work]:
    """Yield the pipeline of that name with its connections for ``kind`` of work."""
    config = load_config()
    (pipeline,) = pipelines_named(config, name)
    with connections_for(config, pipeline, kind, needs_kafka=needs_kafka) as connections:
        yield Work(pipeline, connections)


def connections_for(
    config: SluiceConfig, pipeline: PipelineConfig | None, kind: str, *, needs_kafka: bool = True
) -> AbstractContextManager[Connections]:
    """Return connections for work started on the command line; clients connect on first use."""
    return open_connections(
        config,
        "" if pipeline is None else pipeline.name,
        kind=kind,
        actor=_actor(),
        run_id=f"cli-{uuid.uuid4()}",
        needs_kafka=needs_kafka,
    )


def reason_option(why: str) -> Callable[[_Command], _Command]:
    """Return the required ``--reason`` option."""
    return click.option("--reason", required=True, help=why)


def limit_option(what: str) -> Callable[[_Command], _Command]:
    """Return the ``--limit`` option."""
    most = click.IntRange(min=1)
    return click.option("--limit", type=most, default=DEFAULT_LIMIT, show_default=True, help=what)


def listener_options(section: str, lets: str) -> Callable[[_Command], _Command]:
    """Return the ``--port`` and ``--insecure`` options of a listener."""
    where = f"Port to listen on. Overrides the port of {section}.listen."
    port = click.option("--port", type=click.IntRange(1, 65535), default=None, help=where)
    who = f"Allow other machines to {lets} without tokens."
    insecure = click.option("--insecure", is_flag=True, help=who)
    return lambda command: port(insecure(command))


def pipeline_command(
    name: str, kind: str = "", *, of: click.Group | None = None, needs_kafka: bool = True
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Return a decorator that makes a command for one pipeline: ``do(report, work, **options)``.

    ``kind`` of work defaults to the command's name; ``of`` is the group that the command belongs to.
    """

    def make(do: Callable[..., int | None]) -> click.Command:
        @wraps(do)
        def run(report: output.Report, pipeline: str, **typed: Any) -> int | None:
            with opened(pipeline, kind or name, needs_kafka=needs_kafka) as work:
                return do(report, work, **typed)

        command = of.command if of else click.command
        result = command(name)(click.argument("pipeline")(output.reported(run)))
        result.params.append(result.params.pop(1))  # --json after the command's own options
        return result

    return make


def tell_dagster(pipeline: PipelineConfig, result: Done) -> None:
    """Report the result to Dagster, if it is there; a failure to do so is one line and changes nothing."""
    from assets.reports import instance_home, report_result

    try:
        if home := instance_home(load_written().home):
            report_result(home, pipeline, result, _actor())
    except Exception as error:  # noqa: BLE001  (the work is done, whatever Dagster's database says)
        line = scrub(f"Could not report to Dagster: {type(error).__name__}: {error}")
        click.echo(line, err=True)


def _actor() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that its list of users does not have
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def verdict(result: AuditResult) -> str:
    """Return the audit's verdict in one line, with counts and what it is based on."""
    if not result.is_clean:
        return f"NOT exact: {', '.join(result.examples)} (partition:offset)"
    parts = [_found(result)]
    if result.outdated:
        parts.append(f"{output.count(result.outdated, 'record')} written with an earlier configuration")
    if result.removed:
        records = output.count(result.removed, "record")
        parts.append(f"{records} removed by another writer ({', '.join(result.examples)})")
    if result.gone:
        offsets = f"{output.count(result.gone, 'offset')} that Kafka no longer holds"
        parts.append(result.layout.uncompared.format(offsets=offsets))
    return "; ".join(parts)


def _found(result: AuditResult) -> str:
    if result.rows == result.records and not result.skipped and result.layout.found_all:
        return result.layout.found_all
    counted = {
        "rows": "row",
        "routed": "routed row",
        "dead_letters": "dead letter",
        "tombstones": "tombstone",
    }
    found = [output.count(n, word) for kind, word in counted.items() if (n := getattr(result, kind))]
    found += [f"{n:,} {kind}" for kind in ("filtered", "folded", "skipped") if (n := getattr(result, kind))]
    counts = ", ".join(found) or "0 rows"
    return f"{result.layout.found}: {counts}"
