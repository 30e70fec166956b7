"""``quality`` in ``sluice.yaml``: suites of expectations, and what a gate does. Pure."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.settings import Frozen
from spark_jobs.config.suites import OnFailure, Severity, Suite, When
from spark_jobs.config.values import (  # noqa: TC001  (pydantic needs them at run time)
    Expectations,
    PipelineName,
)


class WrittenSuite(Frozen):
    """Expectations that are judged together, each under Great Expectations' own name."""

    name: PipelineName = Field(description="Name of the suite and of its check in Dagster.")
    when: Literal["after", "gate"] = Field(
        default="after",
        description="`after`: judged on what was committed. `gate`: judged on the written files of each"
        " batch, which is committed only when it meets them.",
    )
    on_failure: Literal["hold", "dead_letters"] | None = Field(
        default=None,
        description="What a gate does: `hold` the batch until a person publishes or discards it, or send its"
        " failing rows to the dead letters.",
        json_schema_extra={"default": "hold"},
    )
    severity: Literal["warn", "error"] = Field(
        default="error", description="Severity of the check in Dagster when the suite is not met."
    )
    expectations: Expectations = Field(
        description="`- expect_column_values_to_not_be_null: {column: id}` and any other; a field inside a"
        " struct is `customer.country`."
    )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if not self.expectations:
            raise UnreadableValueError("has no expectations", "Add one, or leave out the suite.")
        if self.when == "after" and self.on_failure is not None:
            raise UnreadableValueError(
                "has on_failure, which is a gate's", "Add when: gate, or leave it out."
            )
        if self.on_failure == "dead_letters" and not any(e.is_of_rows for e in self.expectations):
            raise UnreadableValueError(
                "sends failing rows to the dead letters, and none of its expectations is about rows",
                "Write on_failure: hold, or add one such as expect_column_values_to_not_be_null.",
            )
        return self

    def in_force(self) -> Suite:
        """The suite with its defaults applied."""
        return Suite(
            self.name,
            self.expectations,
            When(self.when),
            OnFailure(self.on_failure or "hold"),
            Severity(self.severity),
        )


def _suites(written: tuple[WrittenSuite, ...]) -> tuple[Suite, ...]:
    names = [suite.name for suite in written]
    for name in names:
        if names.count(name) > 1:
            raise UnreadableValueError(f"has two suites named {name}", "Names are unique in a pipeline.")
    return tuple(suite.in_force() for suite in written)


Suites = Annotated[tuple[WrittenSuite, ...], AfterValidator(_suites)]
