"""Audit of a mirror against its source database, while changes continue.

Counts and sums of hashes by bucket of keys come first, then the rows of buckets that differ. What differs may
be on its way: it is looked at again once the mirror has passed where the database stood.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_jobs.audit.source_rows import Comparison, Rows, bucket_of, mirror_rows, sums_of, unlike
from spark_jobs.config.secrets import resolve
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.errors import fault, needs
from spark_jobs.protocol.texts import count

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig, SluiceConfig
    from spark_jobs.connections.connect import Connections

MOST_EXAMPLES = 20
LOOK_AGAIN_SECONDS = 2.0
_POSITION = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"


@dataclass(frozen=True, slots=True)
class SourceAudit:
    """``rows`` are the database's; ``differing`` keys still differed in the last comparison.

    ``is_proven`` if none of them can be on its way: the mirror went past where the database stood, and both
    were as before. ``left_out`` are columns that were not compared.
    """

    pipeline: str
    table: str
    rows: int
    mirror_rows: int
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    differing: int = 0
    is_proven: bool = True
    examples: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """True if nothing differs that should not."""
        return not self.differing


def audit_source(
    config: SluiceConfig,
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    patience_seconds: float,
    on_progress: Callable[[str], None] = lambda _line: None,
) -> SourceAudit:
    """Compare the mirror with its source's table; differing keys are compared again until a deadline.

    Only reads. Raises ``ConfigError`` where the pipeline names no source, or the table is not there,
    ``RetryableError`` when the database does not answer.
    """
    mirror = load_drained(pipeline, connections)
    with _session(config, pipeline) as cursor:
        comparison = _comparison(pipeline, cursor, mirror)
        on_progress(f"comparing {comparison.table} with {pipeline.table}")
        held = comparison.sums(cursor)
        there = sums_of(mirror_rows(mirror, comparison))
        buckets = unlike(held, there)
        on_progress(f"{len(buckets)} of {len({*held, *there})} buckets of keys differ")
        found, is_proven = _Found({}, {}), True
        deadline = time.monotonic() + patience_seconds
        while buckets:
            before, (found, is_past) = found, _look(comparison, cursor, pipeline, connections, buckets)
            # What was alike once is right, and what is as it was while the mirror went past it is wrong.
            found = found.among(before.unlike or found.unlike)
            is_proven = is_past and found == before
            buckets = sorted(set(map(bucket_of, found.unlike)))
            if is_proven or not buckets or time.monotonic() >= deadline:
                break
            on_progress(f"{count(len(found.unlike), 'key differs', 'keys differ')}, looking again")
            time.sleep(LOOK_AGAIN_SECONDS)
    return SourceAudit(
        pipeline.name,
        pipeline.table,
        sum(count for count, _ in held.values()),
        sum(count for count, _ in there.values()),
        tuple(comparison.columns),
        comparison.left_out,
        len(found.unlike),
        is_proven,
        tuple(found.told(key) for key in found.unlike[:MOST_EXAMPLES]),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    held: Rows
    there: Rows

    @property
    def unlike(self) -> list[str]:
        return unlike(self.held, self.there)

    def among(self, keys: Iterable[str]) -> _Found:
        """Return the keys among these that differ."""
        kept = set(keys).intersection(self.unlike)
        sides = ({key: row for key, row in side.items() if key in kept} for side in (self.held, self.there))
        return _Found(*sides)

    def told(self, key: str) -> str:
        """Return a text about how a key differs."""
        if key not in self.there:
            return f"{_shown(key)}: not in the mirror"
        if key not in self.held:
            return f"{_shown(key)}: not in the database"
        mirrored, held = _shown(self.there[key]), _shown(self.held[key])
        return f"{_shown(key)}: {mirrored} in the mirror, {held} in the database"


def _look(
    comparison: Comparison,
    cursor: Any,
    pipeline: PipelineConfig,
    connections: Connections,
    buckets: Iterable[str],
) -> tuple[_Found, bool]:
    """Read the rows of these buckets on both sides, and whether the mirror had passed the database."""
    wanted = set(buckets)
    held = comparison.rows(cursor, wanted)
    cursor.execute(_POSITION)
    (position,) = cursor.fetchone()
    mirror = load_drained(pipeline, connections)
    there = {key: row for key, row in mirror_rows(mirror, comparison) if bucket_of(key) in wanted}
    return _Found(held, there), _has_passed(pipeline, connections, mirror, position)


def _has_passed(pipeline: PipelineConfig, connections: Connections, mirror: Table, position: int) -> bool:
    """True if the mirror has everything up to a position: a later event arrived, and nothing is left."""
    progress = progress_of(mirror)
    cdc = progress.cdc or Cdc()
    of_now = (each for each in cdc.positions.values() if each.identity == len(cdc.restarts))
    furthest = max((each.sequence for each in of_now), default=0)
    source = connections.admin.source_state(pipeline.topic)
    return furthest >= position and not source.lag(progress.next_offsets)


def _comparison(pipeline: PipelineConfig, cursor: Any, mirror: Table) -> Comparison:
    progress = progress_of(mirror)
    key = progress.cdc.key if progress.cdc else None
    *_, schema, name = ["", *pipeline.topic.split(".")]
    if not key or not schema:
        raise fault("source-table-unknown", pipeline=pipeline.name, topic=pipeline.topic)
    comparison = Comparison.of(cursor, (schema, name), key, mirror)
    if unknown := [column for column in key if column not in comparison.columns]:
        raise fault("source-key-unlike", name=unknown[0], **pipeline.where)
    return comparison


@contextmanager
def _session(config: SluiceConfig, pipeline: PipelineConfig) -> Iterator[Any]:
    """Yield a read-only cursor; each statement sees the database's current state."""
    name = pipeline.mirror.source
    if name is None:
        raise fault("no-source", pipeline=pipeline.name)
    address: Mapping[str, str] = resolve({"url": config.sources[name].get_secret_value()})
    with needs("postgres"):  # only who audits against a database has its driver
        import psycopg2  # noqa: PLC0415
    try:
        session = psycopg2.connect(address["url"], application_name="sluice audit", connect_timeout=10)
        try:
            session.set_session(readonly=True, autocommit=True)
            with session.cursor() as cursor:
                cursor.execute("SET datestyle = 'ISO'; SET timezone = 'UTC'; SET bytea_output = 'hex'")
                yield cursor
        finally:
            session.close()
    except psycopg2.OperationalError as error:
        raise fault("source-away", name=name, type=type(error).__name__, pipeline=pipeline.name) from None
    except psycopg2.Error as error:
        raise fault("source-refused", name=name, type=type(error).__name__, pipeline=pipeline.name) from None


def _shown(text: str) -> str:
    return ", ".join("null" if part == "~" else part[1:] for part in text.split("\x1f"))
