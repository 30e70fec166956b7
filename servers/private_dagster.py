"""Names of Dagster beyond its public ones that forked runs use, all of them here.

Tried with one version. With another, Dagster keeps its own launcher and nothing of this is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from servers.runs import SOCKET_VARIABLE
from spark_jobs import WITHIN

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun
    from dagster._core.launcher.base import CheckRunHealthResult

KNOWN_VERSION = "1.13.27"
_LAUNCHER = {"module": f"{WITHIN}orchestration.run_launcher", "class": "ForkingRunLauncher"}


def forks_here() -> bool:
    """Return whether runs can be forked: on Linux, with the known version of Dagster."""
    return sys.platform == "linux" and version("dagster") == KNOWN_VERSION


def launcher_option() -> list[str]:
    """Return the option that gives a process of Dagster our run launcher, if ``up`` has runs forked.

    There is none if the instance's settings name one. They stay as they are, also for older versions.
    """
    if SOCKET_VARIABLE not in os.environ:
        return []
    from dagster._core.instance.ref import InstanceRef  # noqa: PLC0415  (only of the known version)
    from dagster._serdes import serialize_value  # noqa: PLC0415

    home = os.environ["DAGSTER_HOME"]
    launcher = InstanceRef.from_dir(home).run_launcher_data
    if launcher is not None and launcher.class_name != "DefaultRunLauncher":
        return []
    ref = InstanceRef.from_dir(home, overrides={"run_launcher": _LAUNCHER})
    return ["--instance-ref", serialize_value(ref)]


def arguments_of(instance: DagsterInstance, run: DagsterRun) -> str:
    """Return the arguments of Dagster's command ``api execute_run`` for a run that has code."""
    from dagster._grpc.types import ExecuteRunArgs  # noqa: PLC0415
    from dagster._serdes import serialize_value  # noqa: PLC0415

    assert run.job_code_origin is not None  # noqa: S101
    return serialize_value(ExecuteRunArgs(run.job_code_origin, run.run_id, instance.get_ref()))


def module_of(run: DagsterRun) -> str | None:
    """Return the module that the run's definitions are loaded from."""
    origin = run.job_code_origin
    return getattr(origin.repository_origin.code_pointer, "module", None) if origin else None


def load_migrations() -> None:
    """Load what each instance of Dagster compares its database with, to be kept in this process."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415
    from dagster._core.storage.runs.sqlite import sqlite_run_storage  # noqa: PLC0415
    from dagster._core.storage.sql import get_alembic_config  # noqa: PLC0415

    ScriptDirectory.from_config(get_alembic_config(sqlite_run_storage.__file__)).get_heads()


def execute_run(arguments: str) -> None:
    """Run the command ``dagster api execute_run`` here. May raise ``SystemExit``."""
    from dagster._cli.api import execute_run_command  # noqa: PLC0415

    assert execute_run_command.callback is not None  # noqa: S101
    with event_log_kept_open():
        execute_run_command.callback(arguments, None)


@contextmanager
def event_log_kept_open() -> Iterator[None]:
    """Have SQLite's event log connect once a database, and not wait for the disk.

    Dagster connects, syncs and closes for each event: with its checks, half of a small drain's time. A power
    cut may take the last events. The file stays whole, and the table says what was committed.
    """
    from dagster._core.storage.event_log.sqlite import sqlite_event_log  # noqa: PLC0415
    from sqlalchemy import Engine, create_engine, event  # noqa: PLC0415

    module: Any = sqlite_event_log
    kept: dict[str, Engine] = {}

    def engine_of(url: str, *, connect_args: Mapping[str, Any], **_: object) -> Engine:
        if url not in kept:
            kept[url] = create_engine(url, connect_args=dict(connect_args))
            event.listen(kept[url], "connect", lambda opened, _: opened.execute("PRAGMA synchronous=NORMAL"))
            kept[url].dispose = lambda close=True: None  # type: ignore[method-assign]  # noqa: ARG005
        return kept[url]

    before, module.create_engine = module.create_engine, engine_of
    try:
        yield
    finally:
        module.create_engine = before
        for engine in kept.values():
            engine.pool.dispose()


def health(*, is_alive: bool, why: str) -> CheckRunHealthResult:
    """Return the health of a run's process for run monitoring."""
    from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus  # noqa: PLC0415

    return CheckRunHealthResult(WorkerStatus.RUNNING if is_alive else WorkerStatus.FAILED, why)
