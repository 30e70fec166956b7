"""What a task hands back to the driver: a row, never an exception whose type Spark would lose. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

from spark_jobs.protocol.batch import Balance, WrittenFile, total
from spark_jobs.protocol.json_codec import JsonCodec


class OutcomeKind(StrEnum):
    """How a split ended."""

    WRITTEN = "written"  # every offset of the split is accounted for, its files are complete
    OBSERVED = "observed"  # nothing written: values carry fields the table has no column for
    FAILED = "failed"  # an error that the same task would meet again


@dataclass(frozen=True, slots=True)
class Written:
    """What one task wrote, or all tasks of a batch.

    ``balances`` by partition; ``max_timestamp_ms`` the largest record time by partition (absent when none
    had one); ``cpu_us`` CPU microseconds by step (fetch, decode, shape, write; threads: librdkafka's);
    ``kafka`` what librdkafka tells of its consumer; ``ignored`` values by the dotted name of their field;
    ``dead_letter_phases`` those by the step that they did not pass; ``filtered_reasons`` records that a
    filter left out; ``routed_files`` by the table they are for; ``unlisted`` rows that stay for want of a
    table listed for their value.
    With ``has_strays`` tries that came to nothing may have left files behind.
    """

    data_files: tuple[WrittenFile, ...] = ()
    dead_letter_files: tuple[WrittenFile, ...] = ()
    balances: dict[int, Balance] = field(default_factory=dict)
    bytes_read: int = 0
    max_timestamp_ms: dict[int, int] = field(default_factory=dict)
    cpu_us: dict[str, int] = field(default_factory=dict)
    kafka: dict[str, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    dead_letter_phases: dict[str, int] = field(default_factory=dict)
    filtered_reasons: dict[str, int] = field(default_factory=dict)
    routed_files: dict[str, tuple[WrittenFile, ...]] = field(default_factory=dict)
    unlisted: dict[str, int] = field(default_factory=dict)
    peak_task_rss_bytes: int = 0
    has_strays: bool = False

    @property
    def balance(self) -> Balance:
        """Sum over the partitions."""
        return total(self.balances.values())

    @property
    def every_file(self) -> tuple[WrittenFile, ...]:
        """The files of all tables."""
        return (*self.data_files, *self.dead_letter_files, *chain(*self.routed_files.values()))

    @property
    def routed_rows(self) -> dict[str, int]:
        """How many rows each table gets that they are routed to."""
        return {table: sum(file.rows for file in files) for table, files in self.routed_files.items()}


MAX_IGNORED_NAMES = 100  # of values no table is listed for, too
OTHERS = "(others)"
_NAME_CHARACTERS = 100


def add_ignored(counted: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums by name; beyond so many names, which records choose, all others are one."""
    sums = dict(counted)
    for name, values in more.items():
        known = name[:_NAME_CHARACTERS]
        known = known if known in sums or len(sums) < MAX_IGNORED_NAMES else OTHERS
        sums[known] = sums.get(known, 0) + values
    return sums


@dataclass(frozen=True, slots=True)
class SplitOutcome:
    """One split's result.

    ``written`` with WRITTEN only, ``evidence`` (JSON of ``spark_jobs.schema.evidence``) with OBSERVED only,
    or ``lacking``, the columns that tables need for rows routed to them,
    ``error`` (see ``spark_jobs.protocol.errors.error_to_json``) with FAILED only. ``failed_tries`` of the
    same task may have left files behind.
    """

    split_id: int
    kind: OutcomeKind
    written: Written = Written()
    evidence: str | None = None
    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    failed_tries: int = 0

    def to_json(self) -> str:
        """Return one JSON object."""
        return _CODEC.to_json(self)


_CODEC = JsonCodec(SplitOutcome)


def outcome_from_json(text: str) -> SplitOutcome:
    """Read ``SplitOutcome.to_json`` back."""
    return _CODEC.from_json(text)
