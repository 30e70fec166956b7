"""``checks:`` of ``sluice.yaml`` as a person writes them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from spark_jobs.checks.check import Check, LimitKind
from spark_jobs.checks.registry import CHECKS
from spark_jobs.config.frozen import Frozen
from spark_jobs.config.values import Count, Duration, Share, nothing_is_empty


class WrittenCheck(Frozen):
    """How bad it is when the check fails: `error` wants a person now, `warn` a look, `off` is not judged."""

    severity: Literal["error", "warn", "off"] | None = Field(
        default=None, description="`error` wants a person now, `warn` a look, `off` is not judged."
    )


class WrittenDurationCheck(WrittenCheck):
    """A check whose limit is a duration."""

    limit: Duration | None = Field(default=None, description=LimitKind.DURATION)


class WrittenCountCheck(WrittenCheck):
    """A check whose limit is a number of records."""

    limit: Count | None = Field(default=None, description=LimitKind.COUNT)


class WrittenShareCheck(WrittenCheck):
    """A check whose limit is a share."""

    limit: Share | None = Field(default=None, description=LimitKind.SHARE)


_WRITTEN = {
    None: WrittenCheck,
    LimitKind.DURATION: WrittenDurationCheck,
    LimitKind.COUNT: WrittenCountCheck,
    LimitKind.SHARE: WrittenShareCheck,
}


def _field(check: Check) -> tuple[Any, Any]:
    """Return the type and the description of the key of a check."""
    text = f"{check.meaning} {check.limit_text} Severity `{check.severity}` unless said otherwise."
    model: Any = _WRITTEN[check.limit]
    written = Annotated[model, BeforeValidator(nothing_is_empty)] | None
    return written, Field(default=None, alias=check.name, description=text)


if TYPE_CHECKING:
    _Fields = Frozen
else:
    # What a model has a name for itself (``schema``) cannot be a field's.
    _names = {check.name: check.name + "_" * hasattr(Frozen, check.name) for check in CHECKS}
    _Fields = create_model(
        "_Fields", __base__=Frozen, **{_names[check.name]: _field(check) for check in CHECKS}
    )


class WrittenChecks(_Fields):
    """The built-in checks, each `{severity: error|warn|off, limit: …}`; see docs/OPERATIONS.md."""
