"""Registry of the kinds of upkeep, one per module of ``kinds``, and those that are due."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from operator import attrgetter

from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.upkeep import kinds
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.kind import Due, State, UpkeepKind

# As an archive lists them too, in which the code is shipped.
_NAMES = [module.name for module in pkgutil.iter_modules(kinds.__path__)]
_FOUND: list[UpkeepKind] = [importlib.import_module(f"{kinds.__name__}.{name}").KIND for name in _NAMES]
KINDS = tuple(sorted(_FOUND, key=attrgetter("place")))
BY_NAME = {kind.name: kind for kind in KINDS}


def due_upkeep(
    figures: Sequence[TableFigures],
    settings: UpkeepSettings,
    *,
    now_ms: int,
    seconds_since: Mapping[str, float],
) -> tuple[Due, ...]:
    """Return the upkeep that is due; ``figures`` are of the table, its dead letters and the books.

    ``seconds_since`` is by name since a kind was last done, or waited for first; without it one that goes by
    the clock is due.
    """
    states = [State(tuple(figures), settings, now_ms, seconds_since.get(kind.name)) for kind in KINDS]
    reasons = [(kind, kind.find_reason(state)) for kind, state in zip(KINDS, states, strict=True)]
    return tuple(Due(kind, reason) for kind, reason in reasons if reason)
