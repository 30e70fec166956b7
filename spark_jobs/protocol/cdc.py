"""How far a mirror's table is in its source's own log: kept with its progress, in the same commit. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Position:
    """The furthest an event of a partition stood: of the last commit told before it, and its own.

    They are compared in this order: transactions that overlap are told commit by commit, and their own
    positions go back. ``time_us`` is the latest time of the source by then.
    """

    commit: int
    sequence: int
    time_us: int | None = None


@dataclass(frozen=True, slots=True)
class Cdc:
    """What the fold of the next batch goes on from.

    ``key`` names the fields of the table's keys, none of keys that are text; None before the first key.
    ``positions`` are by partition. Rows of a sequence below ``truncated_below`` are gone, and so is what
    comes of them later. ``began`` are the offsets that the fold of today's rows began at, where a rebuild
    did; else it began where the table did.
    """

    key: tuple[str, ...] | None = None
    positions: dict[int, Position] = field(default_factory=dict)
    truncated_below: int | None = None
    began: dict[int, int] = field(default_factory=dict)
