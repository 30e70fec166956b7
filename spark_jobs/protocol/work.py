"""What a kind of work is: what fences it, what is checked, what recovery may do, what it says. Pure.

A work is a file in ``spark_jobs.protocol.works``. The transaction log, summaries of commits and books keep
its name; who runs, commits and recovers one asks it. On its way a test may have it die, at places with names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from operator import attrgetter
from typing import ClassVar, Protocol, TypeVar

from spark_jobs.protocol.json_codec import stored_as
from spark_jobs.protocol.offsets import spans_after_drain, spans_after_replay

_T = TypeVar("_T")


class Standing(Protocol):
    """What a fence asks of a table's progress, beside the count that it goes by."""

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """The offsets that the table stands at, by partition."""


@dataclass(frozen=True, slots=True)
class Fence:
    """What refuses a planned commit for ever: a count of the table that has grown, or offsets that moved.

    Offsets tell nothing of work that is ``behind`` those of the table from the beginning.
    """

    count: Callable[[Standing], int]
    behind: bool = False

    def has_closed(self, table: Standing, epoch: int, starts: Mapping[int, int]) -> bool:
        """Return True if what was planned at this count, from these offsets on, can never land."""
        moved = any(table.next_offsets.get(partition, start) > start for partition, start in starts.items())
        return self.count(table) > epoch or (moved and not self.behind)

    def is_next(self, table: Standing, epoch: int, starts: Mapping[int, int]) -> bool:
        """Return True if it goes on from where the table stands; unknown partitions do not object."""
        stays = all(table.next_offsets.get(partition, start) == start for partition, start in starts.items())
        return self.count(table) <= epoch and stays and not self.behind


# After a rollback a table comes to the same offsets again, and files of before may have been swept.
BY_OFFSETS = Fence(attrgetter("rollbacks"))
BY_EPOCH = Fence(attrgetter("replay_epoch"), behind=True)


class Touched(StrEnum):
    """Of which partitions a landed commit may have changed rows."""

    NONE = auto()
    ITS_FILES = auto()
    ANY = auto()


class Told(StrEnum):
    """What a landed commit tells of the offsets of its ranges."""

    NOTHING = auto()
    EACH = auto()  # each became a row, a dead letter, or another of the balance's terms
    SOME = auto()  # those of its letters did, which stand among others
    PASSED_OVER = auto()  # an operator had them left out


class Settler(StrEnum):
    """Who settles what is left of an attempt; of a replay, which may be alive, the next one, and no drain."""

    DRAIN = auto()
    REPLAY = auto()


class Check(StrEnum):
    """What is asked of a batch that was read and written, before anything says that it is complete."""

    OFFSETS = auto()  # all are accounted for, and of the source that was planned
    LETTERS = auto()  # all are accounted for; Kafka is not asked
    LOSSES = auto()  # no row goes whose record was not read
    DEAD_LETTERS = auto()  # not too many, and no bad change of a mirror that stops at one


WORKS: dict[str, Work] = {}


def work_of(name: str | None) -> Work:
    """Return the work of the name; of one that only another version knows, one that tells nothing."""
    return WORKS.get(name or "", _OF_ANOTHER_VERSION)


def _named(name: str) -> Work:
    if name not in WORKS:
        raise ValueError(f"no work is called {name}")
    return WORKS[name]


@stored_as(str, write=str, read=_named)
@dataclass(frozen=True, eq=False)
class Work:
    """One kind of work, found by its name from then on; there is one of each in a process.

    ``asks_anew``: what its records were read by and do not name is asked for when it is planned, not taken
    from the table. ``writes_files``: an attempt may leave files behind.
    """

    name: str
    touches: Touched = Touched.ITS_FILES
    told: Told = Told.NOTHING
    checks: tuple[Check, ...] = (Check.OFFSETS, Check.DEAD_LETTERS)
    asks_anew: bool = True
    writes_files: bool = True
    fence: Fence = BY_OFFSETS
    settler: ClassVar[Settler] = Settler.DRAIN
    spans_after: ClassVar = staticmethod(spans_after_drain)

    def __post_init__(self) -> None:
        """Have it found by its name."""
        if self.name:
            WORKS[self.name] = self

    def __str__(self) -> str:
        """Return its name, as log, summaries and books have it."""
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        """Be the same in another process."""
        return _named, (self.name,)

    def new(self, told: _T) -> _T | None:  # noqa: ARG002  (of drains)
        """Return what is ``told`` of its offsets if they are new to the table, None of all else."""
        return None

    def kept(self, table: _T) -> _T | None:
        """Return the table where the rows stay that are there."""
        return table


@dataclass(frozen=True, eq=False)
class Behind(Work):
    """Work on offsets that the table has drained, which stays at those that it stands at."""

    asks_anew: bool = False
    fence: Fence = BY_EPOCH
    settler: ClassVar[Settler] = Settler.REPLAY
    spans_after: ClassVar = staticmethod(spans_after_replay)


_OF_ANOTHER_VERSION = Work("")


# Named places between the phases where a test may kill, stop or delay a run.
#
# The registry is injected: no global, no environment variable, and production code passes ``NoFailPoints``.


class FailPoints(Protocol):
    """What a run asks at every named point; a name is ``<job>.<place>``: ``drain.after-parquet-written``."""

    def reach(self, name: str) -> None:
        """Return to go on, raise or never return to fail here."""
        ...


class NoFailPoints:
    """Production: every point is passed."""

    def reach(self, name: str) -> None:
        """Go on."""
