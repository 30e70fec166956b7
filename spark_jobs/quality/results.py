"""Results of evaluating a quality suite. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from spark_jobs.protocol.texts import JsonCodec

FAILING_ROWS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class FailingRow:
    """A failing row's coordinates and its failing value, shortened and without secrets."""

    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """The result of one expectation.

    ``checked`` counts the rows it was asked about, ``unexpected`` those that do not meet it, of which
    ``examples`` are the first. ``observed`` is the figure it found, when it is about one. ``error`` says why
    it could not be judged at all; it is not met then.
    """

    expectation: str
    is_met: bool
    observed: str | None = None
    checked: int = 0
    unexpected: int = 0
    examples: tuple[FailingRow, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The result of a suite on ``rows`` rows."""

    suite: str
    rows: int
    results: tuple[ExpectationResult, ...]

    @property
    def is_met(self) -> bool:
        """True if every expectation is met."""
        return all(result.is_met for result in self.results)

    @property
    def failed(self) -> tuple[ExpectationResult, ...]:
        """The unmet expectations."""
        return tuple(result for result in self.results if not result.is_met)

    @property
    def story(self) -> str:
        """The problems, in one line."""
        return f"suite {self.suite}: {'; '.join(map(_sentence, self.failed))}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the log, without met expectations."""
        return {"suite": self.suite, "rows": self.rows, "results": [asdict(each) for each in self.failed]}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> SuiteResult:
        """Parse the result of ``to_json``."""
        return _SUITE_RESULT.from_json(json.dumps(value))


_SUITE_RESULT = JsonCodec(SuiteResult)


def merged(suite: str, parts: Sequence[SuiteResult]) -> SuiteResult:
    """Return one suite's results on parts of the rows as one: met if every part meets it."""
    by_expectation = zip(*(part.results for part in parts), strict=True)
    return SuiteResult(suite, sum(part.rows for part in parts), tuple(map(_merged, by_expectation)))


def _merged(results: tuple[ExpectationResult, ...]) -> ExpectationResult:
    worst = next((result for result in results if not result.is_met), results[-1])
    examples = tuple(row for result in results for row in result.examples)
    return replace(
        worst,
        checked=sum(result.checked for result in results),
        unexpected=sum(result.unexpected for result in results),
        examples=examples[:FAILING_ROWS_SHOWN],
    )


def _sentence(result: ExpectationResult) -> str:
    if result.error is not None:
        return f"{result.expectation} cannot be judged: {result.error}"
    if not result.checked:
        return f"{result.expectation} failed: found {result.observed}"
    at = ", ".join(f"{row.partition}:{row.offset}" for row in result.examples[:3])
    place = f" (first at {at})" if at else ""
    return f"{result.expectation} fails for {result.unexpected:,} of {result.checked:,} rows{place}"
