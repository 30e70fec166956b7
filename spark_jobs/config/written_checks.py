"""``checks:`` and ``metrics:`` of ``sluice.yaml`` as a person writes them. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from spark_jobs.config.check_names import DEFAULT_SEVERITIES, CheckName
from spark_jobs.config.settings import DEFAULT_METRICS_PORT, Frozen, MetricsSettings
from spark_jobs.config.values import Count, Duration, PortNumber, Share, nothing_is_empty


class WrittenCheck(Frozen):
    """How bad it is when the check fails: `error` wants a person now, `warn` a look, `off` is not judged."""

    severity: Literal["error", "warn", "off"] | None = Field(
        default=None, description="`error` wants a person now, `warn` a look, `off` is not judged."
    )


class WrittenDurationCheck(WrittenCheck):
    """A check whose limit is a duration."""

    limit: Duration | None = Field(default=None, description="A duration.")


class WrittenCountCheck(WrittenCheck):
    """A check whose limit is a number of records."""

    limit: Count | None = Field(default=None, description="Records.")


class WrittenShareCheck(WrittenCheck):
    """A check whose limit is a share."""

    limit: Share | None = Field(default=None, description="A share, e.g. `1%`.")


def _meaning(name: CheckName, limit: str) -> str:
    return f"{name.meaning} {limit} Severity `{DEFAULT_SEVERITIES[name]}` unless said otherwise."


class WrittenChecks(Frozen):
    """The built-in checks, each `{severity: error|warn|off, limit: …}`; see docs/OPERATIONS.md."""

    complete: Annotated[WrittenCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None, description=_meaning(CheckName.COMPLETE, "It has no limit.")
    )
    fresh: Annotated[WrittenDurationCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        description=_meaning(
            CheckName.FRESH, "`limit`: its age; by default 5 times `freshness`, at least `5m`."
        ),
    )
    lag: Annotated[WrittenCountCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        description=_meaning(
            CheckName.LAG, "`limit`: waiting records; by default twice `max_batch_records`."
        ),
    )
    stall: Annotated[WrittenDurationCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        description=_meaning(
            CheckName.STALL,
            "`limit`: time since the last commit; by default 5 times `freshness`, at least `5m`.",
        ),
    )
    retention_headroom: Annotated[WrittenDurationCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        description=_meaning(
            CheckName.RETENTION_HEADROOM,
            "`limit`: the least time; by default `1d`, or a quarter of `retention.ms` if that is less.",
        ),
    )
    dead_letters: Annotated[WrittenShareCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        description=_meaning(
            CheckName.DEAD_LETTERS,
            "`limit`: their share of a day's records; by default `dead_letters.stop_above`, else `1%`.",
        ),
    )
    schema_: Annotated[WrittenCheck, BeforeValidator(nothing_is_empty)] | None = Field(
        default=None,
        alias="schema",
        description=_meaning(CheckName.SCHEMA, "It fails for a day after a change."),
    )


class WrittenMetrics(Frozen):
    """Prometheus metrics, served by `./sluice up` beside Dagster, or by `./sluice metrics` elsewhere."""

    port: PortNumber | None = Field(
        default=None,
        description="Where they are served. With `0` `./sluice up` serves none;"
        f" `./sluice metrics` then takes {DEFAULT_METRICS_PORT}, or its `--port`.",
        json_schema_extra={"default": f"{DEFAULT_METRICS_PORT}, or a free port when that is taken"},
    )
    host: str | None = Field(
        default=None,
        description="The address to listen on; the default answers this machine only.",
        json_schema_extra={"default": MetricsSettings().host},
    )
