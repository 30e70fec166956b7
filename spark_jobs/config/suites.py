"""Quality suites as the configuration gives them: expectations, when they run, what follows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from spark_jobs.config.expectation_names import COLUMN_EXPECTATIONS, ROW_EXPECTATIONS

if TYPE_CHECKING:
    from collections.abc import Collection


_NAMED_COLUMN = ("column", "column_A", "column_B")


class When(StrEnum):
    """When a suite is judged."""

    AFTER = "after"  # on what was committed
    GATE = "gate"  # on written files, before their commit


class OnFailure(StrEnum):
    """What a gate does with a batch that does not meet its suite."""

    HOLD = "hold"
    DEAD_LETTERS = "dead_letters"


class Severity(StrEnum):
    """How loud a suite that is not met is."""

    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation under Great Expectations' own name, with its keyword arguments."""

    type: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_of_rows(self) -> bool:
        """Whether each row meets it or not, so that failing rows can be told from others."""
        return self.type in ROW_EXPECTATIONS

    @property
    def is_of_columns(self) -> bool:
        """Whether it is about names and types alone: no row is looked at."""
        return self.type in COLUMN_EXPECTATIONS

    def columns(self, known: Collection[str]) -> tuple[str, ...]:
        """The columns it reads; of a row condition, every word that is one of the ``known`` columns."""
        named = [self.kwargs[key] for key in _NAMED_COLUMN if key in self.kwargs]
        listed = self.kwargs.get("column_list", ())
        words = re.findall(r"\w+", str(self.kwargs.get("row_condition") or ""))
        return tuple(dict.fromkeys([*named, *listed, *(word for word in words if word in known)]))

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.kwargs.items())
        return f"{self.type}({given})"


@dataclass(frozen=True, slots=True)
class Suite:
    """Expectations that are judged together."""

    name: str
    expectations: tuple[Expectation, ...]
    when: When = When.AFTER
    on_failure: OnFailure = OnFailure.HOLD
    severity: Severity = Severity.ERROR
