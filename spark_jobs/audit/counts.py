"""Counts of an audit of a table against Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from spark_jobs.audit.findings import RoundedColumn, merged
from spark_jobs.protocol.offsets import OffsetRange, merge
from spark_jobs.protocol.work import Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """Counts of one window or of all windows so far.

    ``records`` = rows + routed + dead letters + tombstones + filtered + folded + passed; ``routed`` are rows
    in other tables; ``passed`` records that say nothing of a row, by kind; ``missing`` readable records that
    are none of these;
    ``removed`` those of them that another writer took out, as the kept snapshots show;
    ``folded`` changes of a mirror that left no row: a newer one of the key came, or its row went;
    ``foreign`` changes in a mirror's topic that another source or table told than its own;
    ``filtered`` those that the pipeline's filter leaves out, and that are neither;
    ``outdated`` rows and records that another configuration than today's had made something else of, or
    nothing, ``outdated_ranges`` the windows they are in;
    ``skipped`` offsets that an operator left out and nothing brought in since;
    ``duplicates`` rows and dead letters beyond the first of an offset; ``differing`` rows that are not what
    the record says; ``rounded`` rows that are the record's but for an integer of which a column of floating
    point holds only the nearest double, ``rounded_columns`` where; ``gone`` offsets that Kafka no longer
    holds, which were checked for doubles only. ``examples`` are coordinates of the first findings.
    """

    rows: int = 0
    routed: int = 0
    dead_letters: int = 0
    tombstones: int = 0
    missing: int = 0
    removed: int = 0
    filtered: int = 0
    folded: int = 0
    skipped: int = 0
    duplicates: int = 0
    differing: int = 0
    rounded: int = 0
    foreign: int = 0
    gone: int = 0
    outdated: int = 0
    outdated_ranges: tuple[OffsetRange, ...] = ()
    rounded_columns: tuple[RoundedColumn, ...] = ()
    examples: tuple[str, ...] = ()
    passed: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: AuditCounts) -> AuditCounts:
        names = [field.name for field in fields(AuditCounts) if field.name != "passed"]
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        sums["passed"] = dict(Counter(self.passed) + Counter(other.passed))
        sums["rounded_columns"] = merged(sums["rounded_columns"])
        sums["outdated_ranges"] = merge(sums["outdated_ranges"])
        return AuditCounts(**{**sums, "examples": sums["examples"][:MAX_EXAMPLES]})

    @property
    def records(self) -> int:
        """Counts of records in the drained ranges."""
        rows = self.rows + self.routed + self.dead_letters
        return rows + self.tombstones + self.filtered + self.folded + sum(self.passed.values())

    @property
    def is_clean(self) -> bool:
        """True if nothing is missing, duplicated or changed; outdated rows do not count."""
        return not (self.missing or self.duplicates or self.differing or self.rounded or self.foreign)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult(AuditCounts):
    """Counts of all drained offsets of the table's current generation.

    ``lag``: last stable offsets minus next offsets.
    """

    pipeline: str
    topic: str
    table: str
    snapshots: int = 0
    lag: int = 0
    layout: Layout = field(default_factory=Layout)

    def outdated_mend(self, pipeline: str) -> str:
        """Return the command that rewrites outdated rows with the current configuration."""
        return self.layout.read_again(pipeline, " ".join(map(str, self.outdated_ranges)))


def example_offsets(what: str, partition: int, offsets: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the first of these offsets as text."""
    return tuple(f"{what} {partition}:{offset}" for offset in offsets[:5])
