"""Kinds of work and layouts of tables; callers use one without knowing which. Pure.

A work is a file in ``spark_jobs.protocol.works``, a layout one in ``spark_jobs.layouts``. The log, summaries
of commits and books keep a work's name; who runs, commits and recovers one asks it what fences it, what is
checked, what recovery may do, what it says. On its way a test may have it die, at places with names.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import spans_after_drain, spans_after_replay
from spark_jobs.protocol.texts import stored_as

_T = TypeVar("_T")


class Standing(Protocol):
    """The part of a table's progress that a fence compares, next to its count."""

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """The table's next offsets, by partition."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Rule by which a planned commit is refused for ever: a count has grown, or offsets moved.

    Offsets tell nothing of work that is ``behind`` those of the table from the beginning.
    """

    count: Callable[[Standing], int]
    behind: bool = False

    def has_closed(self, table: Standing, epoch: int, starts: Mapping[int, int]) -> bool:
        """Return True if work planned at this count and these offsets can never land."""
        moved = any(table.next_offsets.get(partition, start) > start for partition, start in starts.items())
        return self.count(table) > epoch or (moved and not self.behind)

    def is_next(self, table: Standing, epoch: int, starts: Mapping[int, int]) -> bool:
        """Return True if it continues at the table's next offsets; unknown partitions do not matter."""
        stays = all(table.next_offsets.get(partition, start) == start for partition, start in starts.items())
        return self.count(table) <= epoch and stays and not self.behind


# After a rollback a table comes to the same offsets again, and files of before may have been swept.
BY_OFFSETS = Fence(attrgetter("rollbacks"))
BY_EPOCH = Fence(attrgetter("replay_epoch"), behind=True)


class Touched(StrEnum):
    """Partitions with rows that a landed commit may have changed."""

    NONE = auto()
    ITS_FILES = auto()
    ANY = auto()


class Effect(StrEnum):
    """Consequence of a landed commit for the offsets of its ranges."""

    NOTHING = auto()
    EACH = auto()  # each became a row, a dead letter, or another of the balance's terms
    SOME = auto()  # those of its letters did, which stand among others
    PASSED_OVER = auto()  # an operator had them left out


class Settler(StrEnum):
    """The step that settles the rest of an attempt; a replay may be alive, so the next replay does."""

    DRAIN = auto()
    REPLAY = auto()


class Check(StrEnum):
    """A check of a batch after reading and writing, before it counts as complete."""

    OFFSETS = auto()  # all are accounted for, and of the source that was planned
    LETTERS = auto()  # all are accounted for; Kafka is not asked
    LOSSES = auto()  # no row goes whose record was not read
    DEAD_LETTERS = auto()  # not too many, and no bad change of a mirror that stops at one


WORKS: dict[str, Work] = {}


def work_of(name: str | None) -> Work:
    """Return the work of this name; a name of another version returns an unknown work."""
    return WORKS.get(name or "", _OF_ANOTHER_VERSION)


def _named(name: str) -> Work:
    if name not in WORKS:
        raise ValueError(f"there is no kind of work named {name}")
    return WORKS[name]


@stored_as(str, write=str, read=_named)
@dataclass(frozen=True, eq=False)
class Work:
    """One kind of work, registered by name; one instance per process.

    ``asks_anew``: what its records were read by and do not name is asked for when it is planned, not taken
    from the table. ``writes_files``: an attempt may leave files behind.
    """

    name: str
    touches: Touched = Touched.ITS_FILES
    effect: Effect = Effect.NOTHING
    checks: tuple[Check, ...] = (Check.OFFSETS, Check.DEAD_LETTERS)
    asks_anew: bool = True
    writes_files: bool = True
    fence: Fence = BY_OFFSETS
    settler: ClassVar[Settler] = Settler.DRAIN
    spans_after: ClassVar = staticmethod(spans_after_drain)

    def __post_init__(self) -> None:
        """Register it by name."""
        if self.name:
            WORKS[self.name] = self

    def __str__(self) -> str:
        """Return its name, as used in log, summaries and batch history."""
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it by name, so that each process has one instance."""
        return _named, (self.name,)

    def new(self, value: _T) -> _T | None:  # noqa: ARG002  (of drains)
        """Return ``value`` if its offsets are new to the table, otherwise None."""
        return None

    def kept(self, table: _T) -> _T | None:
        """Return the table if its rows stay, otherwise None."""
        return table


@dataclass(frozen=True, eq=False)
class Behind(Work):
    """Work on drained offsets, which does not move the table's offsets."""

    asks_anew: bool = False
    fence: Fence = BY_EPOCH
    settler: ClassVar[Settler] = Settler.REPLAY
    spans_after: ClassVar = staticmethod(spans_after_replay)


_OF_ANOTHER_VERSION = Work("")


# Named places between the phases where a test may kill, stop or delay a run.
#
# The registry is injected: no global, no environment variable, and production code passes ``NoFailPoints``.


class FailPoints(Protocol):
    """Named points of a run; a name is ``<job>.<place>``: ``drain.after-parquet-written``."""

    def reach(self, name: str) -> None:
        """Return, raise or never return at this point."""
        ...


class NoFailPoints:
    """Production: pass every point."""

    def reach(self, name: str) -> None:
        """Return."""


# What a row is of a record: other rooms ask a layout, and not which one it is.
#
# Each is a file of ``layouts`` that has all it owns; a pipeline and its table have one of them.


_ROOMS = __package__.removesuffix(".protocol")
FOLDER = f"{_ROOMS}.layouts"
LAYOUTS = tuple(sorted(each.name for each in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__)))


class Above:
    """A layout's part in a higher package, imported on use: configurations are read without it."""

    def __init__(self, place: str) -> None:
        self.room, _, self.name = place.rpartition(".")

    def __get__(self, layout: object, owner: type) -> Callable[..., Any]:
        """Return the imported part."""
        found: Callable[..., Any] = getattr(importlib.import_module(f"{_ROOMS}.{self.room}"), self.name)
        return found


class Layout(str):
    """A layout, named by ``layout:``; the defaults here apply unless its file overrides them.

    ``keeps_newest``: a row is its key's, as the newest of its records has it, and not one record's.
    """

    __slots__ = ()
    keeps_newest: ClassVar[bool] = False

    # Of its table: its name there, by which columns no two rows are equal, partitions and order in place of
    # configured ones, whether ``_kafka_key`` has bytes in any case, and rows events of a gateway's sources.
    stored: ClassVar[str | None] = None
    identity: ClassVar[tuple[str, ...]] = ("_kafka_generation", "_kafka_partition", "_kafka_offset")
    partitions: ClassVar[tuple[str, ...] | None] = None
    sorting: ClassVar[tuple[str, ...] | None] = None
    key_is_binary: ClassVar[bool] = False
    tells_source_events: ClassVar[bool] = True

    # Of its configuration: how it is called there, sections that are for it alone, and the hint at each key
    # that is not said of it, or at a gate that takes rows out.
    called: ClassVar[str] = ""
    sections: ClassVar[frozenset[str]] = frozenset()
    not_said: ClassVar[Mapping[str, str]] = {}
    no_row_may_go: ClassVar[str] = ""

    # What makes rows anew and what mended dead letters, the acts that it refuses, and the kinds of upkeep
    # that no drain may run beside.
    rewrite_commands: ClassVar[tuple[mends.CommandName, ...]] = ("replay", "redrive")
    dead_letter_commands: ClassVar[tuple[mends.CommandName, *tuple[str, ...]]] = ("redrive",)
    refused: ClassVar[Mapping[str, Callable[..., SluiceError]]] = {
        "rebuild": lambda **at: fault("not-a-mirror", **at),
        "export": lambda **at: fault("export-needs-archive", **at),
    }
    of_drains: ClassVar[frozenset[str]] = frozenset()

    # How records become rows and keys columns, what is written settled, judged and staged, how an audit
    # compares, what became of an offset without a row, and which rows a key has.
    rows = Above("records.layouts.flat.flat")
    of_keys = Above("schema.schema_views.OneColumn")
    settled = Above("drain.write_splits.as_written")
    judged = Above("drain.gate.rows_written")
    stage = Above("commit.batch_commit.stage_rows")
    audit = Above("audit.audit.audit_rows")
    traced = Above("audit.trace.traced_record")
    rows_of_key = Above("query.lookup.rows_of_text")

    # Its words, which columns a rehearsed replay does not compare, checks that it has alone, and how many of
    # the newest offsets an audit on its own compares.
    content: Callable[..., str]
    unlike: Callable[..., SluiceError]
    clash: ClassVar[str] = "column-clash.of-rows"
    unread: ClassVar[str] = "values without a column were ignored (schema.new_fields)"
    found_all: ClassVar[str] = "every record is in the table once, unchanged"
    found: ClassVar[str] = "every record was found once, unchanged"
    uncompared: ClassVar[str] = "{offsets} were judged by counts"
    not_compared: ClassVar[frozenset[str]] = frozenset()
    own_checks: ClassVar[frozenset[str]] = frozenset()
    newest_audited: ClassVar[int] = 1_000_000

    def findings(self, _entry: Any, _sources: Any) -> Iterator[Any]:
        """Yield contradictions in the settings of an entry, for databases with these names."""
        yield from ()

    def schema(self, schema: Any) -> Any:
        """Return the setting for values that do not fit a column."""
        return schema

    def envelope(self, _cdc: Any) -> Any:
        """Return the envelope of rows, None if rows are not events."""
        return None

    def refuse(self, act: str, **at: object) -> None:
        """Raise ``ConfigError`` for an act that this layout does not have."""
        if act in self.refused:
            raise self.refused[act](**at)

    def read_again(self, pipeline: str, ranges: str = "") -> str:
        """Return the command that reads ranges (``P:START-END``, separated by spaces), or all, again."""
        named = [f"--range {each}" for each in ranges.split()]
        return mends.act("replay", pipeline, *(named or ["--all"]), quote='"')

    def compared(self, pipeline: str) -> str:
        """Return the command that compares drained records with Kafka."""
        return mends.command("replay", pipeline, "--all", "--diff")


@cache
def layout_named(name: str) -> Layout:
    """Return the layout of this name in a configuration or table."""
    found: Layout = importlib.import_module(f"{FOLDER}.{name}").LAYOUT
    return found
