"""A mirror's position in its source's log, stored with the progress in the same commit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_jobs.protocol.texts import stored_as


@dataclass(frozen=True, slots=True)
class Position:
    """The furthest position of an event of a partition: of the commit before it, and its own.

    They are compared in this order: transactions that overlap are told commit by commit, and their own
    positions go back. It says nothing of events of another ``identity`` of the source, of which there is one
    more each time that a restart was accepted.
    """

    commit: int
    sequence: int
    identity: int = 0


@dataclass(frozen=True, slots=True)
class _OfSource:
    positions: dict[int, Position] = field(default_factory=dict)
    truncated_below: int | None = None
    truncated_in: int = 0


@dataclass(frozen=True, slots=True)
class _Stored:
    """Stored form: one entry per source name; an unnamed source, and early versions, use the top level."""

    key: tuple[str, ...] | None = None
    positions: dict[int, Position] = field(default_factory=dict)
    truncated_below: int | None = None
    began: dict[int, int] = field(default_factory=dict)
    truncated_in: int = 0
    restarts: tuple[dict[int, int], ...] = ()
    sources: dict[str, _OfSource] = field(default_factory=dict)
    is_spelled: bool = False


def _write(cdc: Cdc) -> dict[str, object]:
    told = {name: getattr(cdc, name) for name in ("positions", "truncated_below", "truncated_in")}
    of_source = told if cdc.source is None else {"sources": {cdc.source: told}}
    spelled = {"is_spelled": True} if cdc.is_spelled else {}
    return {"key": cdc.key, "began": cdc.began, "restarts": cdc.restarts, **of_source, **spelled}


def _read(stored: _Stored) -> Cdc:
    source, told = None, _OfSource(stored.positions, stored.truncated_below, stored.truncated_in)
    if stored.sources:
        ((source, told),) = stored.sources.items()
    return Cdc(
        stored.key,
        told.positions,
        told.truncated_below,
        stored.began,
        told.truncated_in,
        stored.restarts,
        source,
        stored.is_spelled,
    )


@stored_as(_Stored, write=_write, read=_read)
@dataclass(frozen=True, slots=True)
class Cdc:
    """State from which the fold of the next batch continues.

    ``key`` names the fields of the table's keys, none of keys that are text; None before the first key.
    ``positions`` are by partition. Rows of a sequence below ``truncated_below``, or of an earlier identity of
    the source than ``truncated_in``, are gone, and so is what comes of them later. ``began`` are the offsets
    that the fold of today's rows began at, where a rebuild did; else it began where the table did.
    ``restarts`` are by partition the first offsets of each identity of the source but the first, in order.
    ``source`` says whose changes they all are: None where they do not say, or before the first.
    ``is_spelled``: all keys of the table's rows were seen to be in their one spelling.
    """

    key: tuple[str, ...] | None = None
    positions: dict[int, Position] = field(default_factory=dict)
    truncated_below: int | None = None
    began: dict[int, int] = field(default_factory=dict)
    truncated_in: int = 0
    restarts: tuple[dict[int, int], ...] = ()
    source: str | None = None
    is_spelled: bool = False

    def at_starts(self, begins: Mapping[int, int]) -> Cdc:
        """Return the state for a fold that begins at these offsets, without the restarts before them."""
        later = (
            firsts
            for firsts in self.restarts
            if any(firsts.get(partition, 0) > begin for partition, begin in begins.items())
        )
        return Cdc(began=dict(begins), restarts=tuple(later))

    @property
    def latest_begin(self) -> dict[int, int]:
        """Return the offsets of the source's last restart by partition; empty if there was none."""
        return self.restarts[-1] if self.restarts else {}

    def with_restart(self, firsts: Mapping[int, int]) -> Cdc:
        """Return this state with one more restart of the source, which begins at these offsets."""
        return replace(self, restarts=(*self.restarts, dict(firsts)))
