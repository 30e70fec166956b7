"""``checks:`` of ``sluice.yaml``: a key a check, made from what the check says of itself. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import create_model

from spark_jobs.checks.check import Check, LimitKind, Severity
from spark_jobs.checks.registry import CHECKS
from spark_jobs.config.values import Count, Duration, Frozen, Share, key


class WrittenCheck(Frozen):
    """How bad it is when the check fails: `error` wants a person now, `warn` a look, `off` is not judged."""

    severity: Literal["error", "warn", "off"] | None = key(
        None, "`error` wants a person now, `warn` a look, `off` is not judged."
    )


class WrittenDurationCheck(WrittenCheck):
    """A check whose limit is a duration."""

    limit: Duration | None = key(None, LimitKind.DURATION)


class WrittenCountCheck(WrittenCheck):
    """A check whose limit is a number of records."""

    limit: Count | None = key(None, LimitKind.COUNT)


class WrittenShareCheck(WrittenCheck):
    """A check whose limit is a share."""

    limit: Share | None = key(None, LimitKind.SHARE)


_WRITTEN = {
    None: WrittenCheck,
    LimitKind.DURATION: WrittenDurationCheck,
    LimitKind.COUNT: WrittenCountCheck,
    LimitKind.SHARE: WrittenShareCheck,
}
# What a model has a name for itself (``schema``) cannot be a field's.
_FIELDS = {check.name: check.name + "_" * hasattr(Frozen, check.name) for check in CHECKS}


def _field(check: Check) -> tuple[type[WrittenCheck], Any]:
    """Return the type and the description of the key of a check."""
    text = f"{check.meaning} {check.limit_text} Severity `{check.severity}` unless said otherwise."
    written = _WRITTEN[check.limit]
    return written, key(written(), text, alias=check.name)


if TYPE_CHECKING:
    _Fields = Frozen
else:
    _Fields = create_model(
        "_Fields", __base__=Frozen, **{_FIELDS[check.name]: _field(check) for check in CHECKS}
    )


class WrittenChecks(_Fields):
    """The built-in checks, each `{severity: error|warn|off, limit: …}`; see docs/OPERATIONS.md."""

    def severity_of(self, check: Check) -> Severity:
        """Return how bad it is when this check fails."""
        return Severity(self._of(check).severity or check.severity)

    def limit_of(self, check: Check) -> float | None:
        """Return seconds, records or a share, whatever its limit is; None leaves it to the check."""
        limit: float | None = getattr(self._of(check), "limit", None)
        return limit

    def _of(self, check: Check) -> WrittenCheck:
        written: WrittenCheck = getattr(self, _FIELDS[check.name])
        return written
