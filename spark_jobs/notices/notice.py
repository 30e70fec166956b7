"""Notices of commits and failures: which are pending, and their contents. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.protocol.batch import total
from spark_jobs.protocol.work import Touched, Work
from spark_jobs.txlog.entries import (
    PHASE_NUMBERS,
    Attempt,
    FlushComplete,
    IcebergSnapshotCreated,
    Notified,
    ParquetWritten,
    Phase,
)

NOTICE_FORMAT = 1
# After a day caches have expired or were dropped by a person, and the log must not grow forever.
KEPT_US = 24 * 3600 * 1_000_000
MAX_PARTITIONS = 1_000
MAX_KEYS = 1_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def owes_notice(attempt: Attempt) -> bool:
    """True if the attempt's rows and dead letters are committed and its notice is still pending."""
    return (
        attempt.batch is not None
        and attempt.batch.kind.touches is not Touched.NONE
        and attempt.reached == PHASE_NUMBERS[Phase.FLUSH_COMPLETE]
        and attempt.entry(Notified) is None
    )


def is_expired(attempt: Attempt, now_us: int) -> bool:
    """True if the attempt's notice is too old to be sent."""
    return now_us - _completed_at_us(attempt) >= KEPT_US


def changed_keys(attempt: Attempt) -> int | None:
    """Return the number of keys whose rows a mirror changed or removed; None if it may be any key."""
    written = attempt.entry(ParquetWritten)
    if attempt.batch is None or attempt.batch.kind.touches is Touched.ANY or written is None:
        return None
    balance = total(written.balances.values())
    return None if balance.get("truncates", 0) else balance.rows + balance.get("removes", 0)


def notice_of(
    attempt: Attempt,
    partition_paths: Iterable[str],
    *,
    changed: int | None = None,
    keys: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the body of the POST; ``partition_paths`` are those of the files that the attempt added.

    ``partitions`` is null if any partition may have changed: there is only one, or rows were removed.
    ``changed`` is the number of keys whose rows a mirror changed, ``keys`` are these keys.
    """
    batch = attempt.batch
    if batch is None:
        raise AssertionError("an unreadable attempt has no pending notice")
    created = attempt.entry(IcebergSnapshotCreated)
    written = attempt.entry(ParquetWritten)
    balance = total(written.balances.values()) if written else None
    return {
        "format": NOTICE_FORMAT,
        "id": attempt.uuid,
        "kind": batch.kind.name,
        "pipeline": batch.pipeline,
        "table": batch.table,
        "table_uuid": attempt.table_uuid,
        "snapshot_id": created.snapshot_id if created else None,
        "committed_at": iso(created.committed_at_us if created else _completed_at_us(attempt)),
        "topic": batch.topic,
        "generation": batch.generation,
        "offsets": {str(each.partition): [each.start, each.end] for each in batch.ranges},
        "rows": balance.all_rows if balance else None,
        "dead_letters": balance.dead_letters if balance else None,
        "partitions": _touched(batch.kind, set(partition_paths)),
        "changed_keys": changed,
        "keys": keys,
    }


def _completed_at_us(attempt: Attempt) -> int:
    complete = attempt.entry(FlushComplete)
    return complete.completed_at_us if complete else attempt.started_at_us


def _touched(kind: Work, paths: set[str]) -> list[str] | None:
    is_any = kind.touches is Touched.ANY or "" in paths or len(paths) > MAX_PARTITIONS
    return None if is_any else sorted(paths)


def iso(at_us: int) -> str:
    """Return microseconds since the epoch as ISO 8601 in UTC."""
    return (_EPOCH + dt.timedelta(microseconds=at_us)).isoformat().replace("+00:00", "Z")


# A failure of a pipeline's work, as shown to people.


DRAIN, UPKEEP = "drain", "upkeep"
STANDS_AFTER = 3  # equal failures: before that, an outage that is retried needs no person


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of work, repeated ``times`` in a row with the same code since ``since_ms``.

    Times are milliseconds since the epoch. ``attempt`` is the last one that the work had begun, if any.
    """

    message: str
    code: str
    hint: str
    at_ms: int
    since_ms: int = 0
    times: int = 1
    attempt: str = ""
    is_retryable: bool = False

    @property
    def is_standing(self) -> bool:
        """True if no later run is likely to succeed by itself."""
        return not self.is_retryable or self.times >= STANDS_AFTER

    def sentence(self, work: str) -> str:
        """Return a sentence with the work, the error, the time and the number of repetitions."""
        since = iso((self.since_ms or self.at_ms) // 1000 * 1_000_000)
        often = f"{self.times:,} times in a row since" if self.times > 1 else "at"
        return f"the last {work} failed ({often} {since}): {self.message.rstrip('.')}"
