"""Settings ``quality`` (suites and gates) and ``checks`` (severities and limits). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, create_model, model_validator

from spark_jobs.checks.check import Check, LimitKind
from spark_jobs.checks.check import Severity as CheckSeverity
from spark_jobs.checks.registry import BY_NAME, CHECKS
from spark_jobs.config import values
from spark_jobs.config.problems import closest, did_you_mean, wrong_value
from spark_jobs.config.values import Frozen, choice, key, parsed

# What each looks at, by Great Expectations' own name; importing the library to ask it takes seconds. `rows`:
# each meets it or not. `figures`: all rows together. `columns`: names and types. `sql`: it needs a database.
LOOKS_AT = dict(
    line.split()
    for line in (resources.files(__package__) / "expectations.txt").read_text("utf-8").splitlines()
)
KNOWN_EXPECTATIONS = sorted(name for name, kind in LOOKS_AT.items() if kind != "sql")
# A JSON schema would be fetched from where they lead, a file or any host.
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
ROW_CONDITION = "row_condition"
_CONDITION = (ROW_CONDITION, "condition_parser")
_NAMED_COLUMN = ("column", "column_A", "column_B")


class When(StrEnum):
    """Moment at which a suite is evaluated."""

    AFTER = "after"  # on what was committed
    GATE = "gate"  # on written files, before their commit


class OnFailure(StrEnum):
    """Action of a gate on a batch that fails its suite."""

    HOLD = "hold"
    DEAD_LETTERS = "dead_letters"


class Severity(StrEnum):
    """Severity of a failed suite."""

    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation under Great Expectations' own name, with its keyword arguments."""

    type: str
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def is_of_rows(self) -> bool:
        """True if it is evaluated per row, so that failing rows are known."""
        return LOOKS_AT[self.type] == "rows"

    @property
    def is_of_columns(self) -> bool:
        """True if it only concerns names and types of columns, not rows."""
        return LOOKS_AT[self.type] == "columns"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it concerns."""
        named = [self.kwargs[key] for key in _NAMED_COLUMN if key in self.kwargs]
        return tuple(dict.fromkeys([*named, *self.kwargs.get("column_list", ())]))

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments for Great Expectations without the row condition, which it runs as code."""
        return {key: value for key, value in self.kwargs.items() if key not in _CONDITION}

    @property
    def regexes(self) -> tuple[tuple[str, str], ...]:
        """Return the regular expressions among its arguments, by key."""
        given = {key: self.kwargs.get(key) for key in ("regex", "regex_list")}
        listed = ((key, each if isinstance(each, list) else [each]) for key, each in given.items())
        return tuple((key, regex) for key, each in listed for regex in each if isinstance(regex, str))

    @property
    def row_condition(self) -> str | None:
        """Return the SQL condition of the rows that it concerns; None for all."""
        return self.kwargs.get(ROW_CONDITION)

    def __str__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.kwargs.items())
        return f"{self.type}({given})"


def _parse_expectation(value: object) -> Expectation:
    if isinstance(value, Expectation):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        raise wrong_value("not-one-expectation")
    ((name, kwargs),) = value.items()
    if LOOKS_AT.get(name) == "sql":
        raise wrong_value("expectation-of-sql", name=name)
    if name not in LOOKS_AT:
        meant = closest(name, KNOWN_EXPECTATIONS, cutoff=0.5)
        hint = did_you_mean(meant, "Use a name of Great Expectations' gallery.")
        raise wrong_value("not-an-expectation", name=name, how=hint)
    if not (kwargs is None or isinstance(kwargs, dict)):
        raise wrong_value("arguments-no-map", name=name)
    _stay_with_the_rows(name, kwargs or {})
    return Expectation(name, dict(kwargs or {}))


def _stay_with_the_rows(name: str, kwargs: dict[str, Any]) -> None:
    """Refuse arguments that are code or refer to anything but the evaluated rows."""
    if not isinstance(kwargs.get(ROW_CONDITION), str | None):
        raise wrong_value("row-condition-no-text", name=name)
    if kwargs.get("condition_parser", "pandas") != "pandas":
        raise wrong_value("condition-parser", name=name)
    for word, value in _entries(kwargs):
        if word == "$PARAMETER":
            raise wrong_value("expectation-parameter", name=name)
        if word in _REFERENCES and not str(value).startswith("#"):
            raise wrong_value("expectation-reference", name=name, word=word)


def _entries(value: object) -> Iterator[tuple[str, object]]:
    """Yield every key with its value, at any depth."""
    if isinstance(value, dict):
        yield from value.items()
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _entries(item)


Expectations = Annotated[
    tuple[Annotated[Expectation, BeforeValidator(_parse_expectation)], ...],
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "propertyNames": {"enum": KNOWN_EXPECTATIONS},
                "additionalProperties": {"type": "object"},
            },
        }
    ),
]


class Suite(Frozen):
    """Expectations that are evaluated together, by their names in Great Expectations."""

    name: values.PipelineName = Field(description="Name of the suite and of its check in Dagster.")
    when: Annotated[When, choice(When)] = key(
        "after",
        "`after`: evaluated on committed rows. `gate`: evaluated on the files of each batch before its"
        " commit; a batch that fails is not committed.",
    )
    on_failure: Annotated[OnFailure, choice(OnFailure)] = key(
        "hold",
        "Action of a gate. `hold`: the batch waits until an operator publishes or discards it."
        " `dead_letters`: failing rows become dead letters.",
    )
    severity: Annotated[Severity, choice(Severity)] = key(
        "error", "Severity of the check in Dagster if the suite fails."
    )
    expectations: Expectations = Field(
        description="Expectations, for example `- expect_column_values_to_not_be_null: {column: id}`. A field"
        " inside a struct is `customer.country`."
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not self.expectations:
            raise wrong_value("suite-empty")
        if self.when is When.AFTER and "on_failure" in self.model_fields_set:
            raise wrong_value("suite-without-gate")
        if self.on_failure is OnFailure.DEAD_LETTERS and not any(e.is_of_rows for e in self.expectations):
            raise wrong_value("suite-without-rows")
        return self


def _have_names_of_their_own(suites: tuple[Suite, ...]) -> tuple[Suite, ...]:
    names = [suite.name for suite in suites]
    for name in names:
        if names.count(name) > 1:
            raise wrong_value("suite-twice", name=name)
    return suites


Suites = Annotated[tuple[Suite, ...], AfterValidator(_have_names_of_their_own)]


# ``checks``: which of the built-in checks only warn, which are off, and the limits that are not their own.


def _check_name(text: str) -> str:
    if text not in BY_NAME:
        hint = did_you_mean(closest(text, BY_NAME), f"There are {', '.join(BY_NAME)}.")
        raise wrong_value("no-check", name=text, how=hint)
    return text


CheckNames = values.OneOrMany[Annotated[str, parsed(_check_name)]]
WARNING = tuple(check.name for check in CHECKS if check.severity is CheckSeverity.WARN)
_LIMITS: dict[LimitKind, Any] = {
    LimitKind.DURATION: values.Duration,
    LimitKind.COUNT: values.Count,
    LimitKind.SHARE: values.Share,
}

if TYPE_CHECKING:
    _Limits = Frozen
else:
    _Limits = create_model(
        "_Limits",
        __base__=Frozen,
        **{
            check.name: (_LIMITS[check.limit] | None, key(None, f"{check.meaning} {check.limit_text}"))
            for check in CHECKS
            if check.limit
        },
    )


class CheckSettings(_Limits):
    """Severities and limits of the built-in checks (docs/runbook.md)."""

    warn: CheckNames = key(
        WARNING,
        "Checks that only warn. A failure of any other check needs action now.",
        shown=", ".join(WARNING),
    )
    off: CheckNames = key((), "Checks that are disabled.")

    def severity_of(self, check: Check) -> CheckSeverity:
        """Return the severity of this check."""
        if check.name in self.off:
            return CheckSeverity.OFF
        return CheckSeverity.WARN if check.name in self.warn else CheckSeverity.ERROR

    def limit_of(self, check: Check) -> float | None:
        """Return the check's configured limit (seconds, records or a share), or None for its default."""
        limit: float | None = getattr(self, check.name) if check.limit else None
        return limit
