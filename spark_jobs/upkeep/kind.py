"""A kind of upkeep: its name, its condition, and its action on a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.upkeep.figures import TableFigures

if TYPE_CHECKING:
    from spark_jobs.upkeep.table_work import TableWork


@dataclass(frozen=True, slots=True)
class UpkeepOutcome:
    """The result on one table: counts by name, or in ``note`` the reason why nothing was done."""

    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """Input of a condition: figures of the pipeline's table, its dead-letter table and the books.

    ``seconds_since_last`` is since the kind was last done, or waited for first; None when nobody knows.
    """

    figures: tuple[TableFigures, ...]
    settings: UpkeepSettings
    now_ms: int
    seconds_since_last: float | None

    @property
    def rewritable(self) -> Sequence[TableFigures]:
        """Tables whose catalog exposes the history that Iceberg's rewrites need."""
        return [figures for figures in self.figures if figures.shows_history]

    @property
    def collectable(self) -> Sequence[TableFigures]:
        """Tables whose catalog permits deleting files that it may still refer to."""
        return [figures for figures in self.figures if not figures.keeps_garbage]


@dataclass(frozen=True, slots=True)
class UpkeepKind:
    """One kind of upkeep.

    ``place`` orders them so that they help each other. ``effect`` follows the name in the command's help,
    ``description`` is the asset's, with ``{table}``. ``find_reason`` says in words why a pipeline is due, or
    None. ``tidy`` does one table, due or not; it raises every kind of ``SluiceError`` and is safe to repeat,
    beside drains too. ``goes_by_clock``: when it was last done decides. ``can_rehearse``: ``tidy`` looks at
    ``is_rehearsal`` and changes nothing then. ``fail_points`` are its own ones.
    """

    name: str
    place: int
    effect: str
    description: str
    find_reason: Callable[[State], str | None]
    tidy: Callable[[TableWork], UpkeepOutcome]
    fail_points: tuple[str, ...]
    goes_by_clock: bool = False
    can_rehearse: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A kind of upkeep that should run now, with the reason for people."""

    kind: UpkeepKind
    reason: str
