"""One pipeline on real servers in its own folder, with helpers that inspect it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from prove.lab.drain_process import DrainProcess, Work, start_work
from prove.lab.kafka_server import unique_name
from prove.lab.patience import Patience
from prove.lab.signal_at import SignalAt
from prove.lab.tasks_here import tasks_here
from resources.sluice import open_connections
from spark_jobs.audit.audit import audit
from spark_jobs.audit.counts import AuditResult
from spark_jobs.books.entries import books_of
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.connect import Connections, load_fresh, load_routed
from spark_jobs.drain.drain import DrainResult, drain
from spark_jobs.lake.tables import dead_letters_of, progress_of
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress, progress_from_properties
from spark_jobs.protocol.work import FailPoints
from spark_jobs.replay.redrive import RedriveResult, redrive
from spark_jobs.replay.redrive_plan import Selection
from spark_jobs.replay.replay import ReplayResult, replay
from spark_jobs.storage.create_only import list_files
from spark_jobs.storage.paths import normalise_path
from spark_jobs.upkeep.registry import BY_NAME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

PIPELINE = "orders"
_SECRET = "of every lab of this machine"
TABLE = "lab.orders"
EVERY_LETTER = Selection()
_OLD_SECONDS = 4 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Lab:
    """A configuration file, its pipeline, and access to the results.

    ``is_here``: tasks run in the process that drains instead of on Spark.
    """

    path: Path
    is_here: bool = False

    @property
    def config(self) -> SluiceConfig:
        """Return the configuration as commands read it."""
        return load_config(self.path)

    @property
    def pipeline(self) -> PipelineConfig:
        """Return the lab's own pipeline, whatever others a test has added."""
        found = self.config.pipeline(PIPELINE)
        assert found is not None
        return found

    @contextmanager
    def connections(self, **changes: Any) -> Iterator[Connections]:
        """Return a run's connections, with ``changes`` (a clock, fail points)."""
        with open_connections(self.config, PIPELINE, kind="drain", actor="test", run_id="test") as plain:
            yield replace(tasks_here(plain) if self.is_here else plain, **changes)

    def drain(self, **changes: Any) -> DrainResult:
        """Drain in this process until caught up."""
        with self.connections(**changes) as connections:
            return drain(self.pipeline, connections, budget_seconds=60, on_progress=lambda _batch: None)

    def replay(self, *ranges: OffsetRange, force: bool = False, **changes: Any) -> ReplayResult:
        """Replay the ranges in this process."""
        with self.connections(**changes) as connections:
            return replay(self.pipeline, connections, ranges, reason="test", force=force)

    def redrive(self, wanted: Selection = EVERY_LETTER, **changes: Any) -> RedriveResult:
        """Redrive dead letters in this process."""
        with self.connections(**changes) as connections:
            return redrive(self.pipeline, connections, wanted, reason="test")

    def audit(self) -> AuditResult:
        """Compare with Kafka."""
        with self.connections() as connections:
            return audit(self.pipeline, connections)

    def start(
        self, fail_at: str = "", number: int = signal.SIGKILL, *, once: str = "", work: str = "drain"
    ) -> DrainProcess:
        """Start work in a process that signals itself at a fail point."""
        return self.start_with(SignalAt(fail_at, number, once), work=work)

    def start_with(
        self,
        fail_points: FailPoints,
        *,
        work: str = "drain",
        patience: Patience | None = None,
        clock_seconds: int = 0,
    ) -> DrainProcess:
        """Start work in a process with other fail points, which are sent to it.

        ``clock_seconds`` is how far its clock is ahead of the machine's.
        """
        is_here = self.is_here and work not in BY_NAME
        under = Work(work, is_here, patience or Patience(), clock_seconds)
        return start_work(self.path, PIPELINE, fail_points, under)

    def kill_at(self, fail_at: str, *, work: str = "drain") -> None:
        """Run work, by default a drain, that must die at the fail point."""
        process = self.start(fail_at, work=work)
        is_killed = process.died_of() == signal.SIGKILL
        assert is_killed, f"{fail_at} was not reached; it said: {process.last_words()}"

    @contextmanager
    def stopped_at(self, fail_at: str, *, patience: Patience | None = None) -> Iterator[DrainProcess]:
        """Yield a drain stopped at the fail point; kill it at the end unless it was continued."""
        once = self.path.with_name(unique_name("stopped"))
        process = self.start_with(SignalAt(fail_at, signal.SIGSTOP, str(once)), patience=patience)
        try:
            process.wait_until_stopped()
            yield process
        finally:
            process.kill()

    @property
    def tables(self) -> tuple[str, str]:
        """Return the names of the table and of its dead-letter table."""
        return self.pipeline.table, dead_letters_of(self.pipeline.table)

    @property
    def routed(self) -> tuple[str, ...]:
        """Return the existing tables that rows were ever routed to."""
        with self.connections() as connections:
            table = load_fresh(connections, self.pipeline.table)
            return () if table is None else tuple(load_routed(partial(load_fresh, connections), table))

    def table(self, identifier: str = "") -> Table:
        """Return the current table of the pipeline, or another one."""
        with self.connections() as connections:
            table = load_fresh(connections, identifier or self.pipeline.table)
        assert table is not None
        return table

    def drained(self, identifier: str = "") -> int:
        """Return the number of offsets drained into the pipeline's table or another; 0 without a table."""
        with self.connections() as connections:
            table = load_fresh(connections, identifier or self.pipeline.table)
        return 0 if table is None else sum(progress_of(table).next_offsets.values())

    def rows(self, identifier: str = "") -> pa.Table:
        """Return every row."""
        return self.table(identifier).scan().to_arrow()

    def stray_files(self) -> set[str]:
        """Return data files in the lake that no snapshot of the tables names."""
        return _unnamed([self.table(identifier) for identifier in (*self.tables, *self.routed)])

    def files(self) -> set[str]:
        """Return all files below the table's location, with metadata; none without a table."""
        with self.connections() as connections:
            table = load_fresh(connections, self.pipeline.table)
        files = list_files(table.location(), table.io.properties) if table else ()
        return {normalise_path(file.location) for file in files}

    def books(self) -> Table | None:
        """Return the current books; None before the first fold."""
        with self.connections() as connections:
            return load_fresh(connections, books_of(self.pipeline.table))

    def books_orphans(self) -> set[str]:
        """Return files of the books that no snapshot names."""
        books = self.books()
        return set() if books is None else _unnamed([books])


def named_files(table: Table, *, is_live: bool = True) -> dict[str, int]:
    """Return all snapshots' files with sizes; ``is_live`` excludes removed files."""
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in table.metadata.snapshots
        for manifest in snapshot.manifests(table.io)
    }
    return {
        entry.data_file.file_path: entry.data_file.file_size_in_bytes
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=is_live)
    }


def _unnamed(tables: Sequence[Table]) -> set[str]:
    named: set[str] = set()
    found: set[str] = set()
    for table in tables:
        named |= set(map(normalise_path, named_files(table, is_live=False)))
        files = list_files(table.location(), table.io.properties)
        found |= {normalise_path(file.location) for file in files if file.name.endswith(".parquet")}
    return found - named


def make_lab(folder: Path, *, bootstrap: str, topic: str, spark_remote: str | None, **settings: Any) -> Lab:
    """Write a lab's configuration with its state in ``folder``; ``settings`` are the pipeline's.

    Without a Spark server tasks run in the process that drains.
    """
    home = folder / "home"
    (home / "lake").mkdir(parents=True)
    document = {
        "version": 1,
        "kafka": {"bootstrap.servers": f"{bootstrap}"},
        "catalog": {
            "type": "sql",
            "uri": f"sqlite:///{home / 'catalog.db'}",
            "warehouse": (home / "lake").as_uri(),
        },
        "state": str(home / "log"),
        # Labs of one server share its sessions: each has Python processes, which take 110 MB and a second.
        "spark": {"remote": spark_remote, "session_secret": _SECRET} if spark_remote else {},
        "pipelines": {PIPELINE: {"topic": topic, "table": TABLE, **settings}},
    }
    path = folder / "sluice.yaml"
    path.write_text(yaml.safe_dump(document))
    return Lab(path, is_here=spark_remote is None)


def make_old(files: Iterable[str]) -> None:
    """Set the files' times back far enough for orphan removal."""
    for path in files:
        os.utime(path, times=(time.time() - _OLD_SECONDS,) * 2)


def configure(lab: Lab, section: str, settings: Mapping[str, Any]) -> None:
    """Change a section of the lab's configuration file, ``pipelines/orders`` or the top; None removes."""
    document = yaml.safe_load(lab.path.read_text())
    target = document
    for name in filter(None, section.split("/")):
        target = target[name]
    target |= settings
    for name in [name for name, value in settings.items() if value is None]:
        del target[name]
    lab.path.write_text(yaml.safe_dump(document))


def by_offset(lab: Lab, identifier: str = "") -> dict[tuple[int, int], dict[str, Any]]:
    """Return rows by partition and offset."""
    rows = lab.rows(identifier).to_pylist()
    found = {(row["_kafka_partition"], row["_kafka_offset"]): row for row in rows}
    assert len(found) == len(rows), "an offset is in the table twice"
    return found


def progress(lab: Lab, identifier: str = "") -> Progress:
    """Return the progress in the properties of the pipeline's table or another."""
    name = identifier or lab.pipeline.table
    return progress_from_properties(lab.table(name).metadata.properties, table=name)


def orders(first: int, count: int) -> list[bytes]:
    """Return small JSON orders with consecutive numbers."""
    return [
        json.dumps(
            {"id": n, "customer": f"c{n % 17}", "price": n + 0.5, "at": f"2026-01-01T00:{n % 60:02d}:00Z"}
        ).encode()
        for n in range(first, first + count)
    ]
