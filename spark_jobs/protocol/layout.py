"""What a row is of a record: other rooms ask a layout, and not which one it is. Pure.

Each is a file of ``layouts`` that has all it owns; a pipeline and its table have one of them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, fault

_ROOMS = __package__.removesuffix(".protocol")
FOLDER = f"{_ROOMS}.layouts"
LAYOUTS = tuple(sorted(each.name for each in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__)))


class Above:
    """What a room above does for a layout, imported once it is asked: configurations are read without it."""

    def __init__(self, place: str) -> None:
        self.room, _, self.name = place.rpartition(".")

    def __get__(self, layout: object, owner: type) -> Callable[..., Any]:
        """Return it; its types are where it stands."""
        found: Callable[..., Any] = getattr(importlib.import_module(f"{_ROOMS}.{self.room}"), self.name)
        return found


class Layout(str):
    """A layout by its name, as ``layout:`` says it; what stands here holds where its file says nothing else.

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
    anew: ClassVar[tuple[mends.CommandName, ...]] = ("replay", "redrive")
    letters_anew: ClassVar[tuple[mends.CommandName, *tuple[str, ...]]] = ("redrive",)
    refused: ClassVar[Mapping[str, Callable[..., SluiceError]]] = {
        "rebuild": lambda **at: fault("not-a-mirror", **at),
        "export": lambda **at: fault("export-needs-archive", **at),
    }
    of_drains: ClassVar[frozenset[str]] = frozenset()

    # How records become rows and keys columns, what is written settled, judged and staged, how an audit
    # compares, what became of an offset without a row, and which rows a key has.
    rows = Above("records.layouts.flat.flat")
    of_keys = Above("schema.placed.OneColumn")
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
        """Yield what settings of an entry contradict, where databases have these names."""
        yield from ()

    def schema(self, schema: Any) -> Any:
        """Return what is in force of a column that does not take a field."""
        return schema

    def envelope(self, _cdc: Any) -> Any:
        """Return what is around a row, None where rows are no events."""
        return None

    def refuse(self, act: str, **at: object) -> None:
        """Raise ``ConfigError`` for an act that is none of this layout."""
        if act in self.refused:
            raise self.refused[act](**at)

    def read_again(self, pipeline: str, ranges: str = "") -> str:
        """The command that makes ranges (``P:START-END`` each, separated by spaces), or all, anew."""
        named = [f"--range {each}" for each in ranges.split()]
        return mends.act("replay", pipeline, *(named or ["--all"]), quote='"')

    def compared(self, pipeline: str) -> str:
        """The command that compares what is drained with Kafka."""
        return mends.command("replay", pipeline, "--all", "--diff")


@cache
def layout_named(name: str) -> Layout:
    """Return the layout that a configuration or a table names."""
    found: Layout = importlib.import_module(f"{FOLDER}.{name}").LAYOUT
    return found
