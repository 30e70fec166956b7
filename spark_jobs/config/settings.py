"""The configuration as Sluice uses it: defaults applied, one pipeline a topic, secrets unresolved.

What a person writes is ``config_written.py``; how it becomes this is ``config_build.py``. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from spark_jobs.checks.check import Severity  # noqa: TC001  (pydantic needs it at run time)
from spark_jobs.config.problems import ConfigProblem  # noqa: TC001  (pydantic needs it at run time)
from spark_jobs.config.redaction import redact_properties, redact_urls
from spark_jobs.config.suites import Suite, When

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1024 * 1024
DAY_SECONDS = 24 * 3600
DEFAULT_FRESHNESS_SECONDS = 60
DEFAULT_MAX_BATCH_RECORDS = 2_000_000
DEFAULT_MAX_BATCH_BYTES = 1024 * MIB
DEFAULT_TASK_MEMORY_BYTES = 512 * MIB
DEFAULT_METRICS_PORT = 9464
DEAD_LETTERS_SUFFIX = "_dead_letters"


class StartKind(StrEnum):
    """Where a table that does not exist yet begins to read."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class Start:
    """``timestamp_ms`` (since the epoch) with TIMESTAMP only, ``offsets`` by partition with OFFSETS only."""

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)


class KeyFormat(StrEnum):
    """The type of the column ``_kafka_key``."""

    STRING = "string"
    BINARY = "binary"


class Frozen(BaseModel):
    """Base of all configuration models: immutable, no unknown fields, no values in validation errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _WithSecrets(Frozen):
    """A model that shows no value of a secret key in ``repr``, ``str`` and ``model_dump``."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name in type(self).model_fields:
            value = getattr(self, name)
            yield name, _shown(value)


class CatalogSettings(_WithSecrets):
    """One catalog under PyIceberg's property names."""

    name: str = "sluice"
    properties: dict[str, str]

    @field_serializer("properties")
    def _redact(self, value: dict[str, str]) -> dict[str, str]:
        return redact_properties(value)


class SparkSettings(_WithSecrets):
    """Where tasks run: ``remote`` is a Connect URL, ``master`` a Spark master, at most one is set.

    ``task_memory`` is in bytes.
    """

    remote: str | None = None
    master: str | None = None
    task_memory: int = DEFAULT_TASK_MEMORY_BYTES
    conf: dict[str, str] = Field(default_factory=dict)

    @field_serializer("conf")
    def _redact(self, value: dict[str, str]) -> dict[str, str]:
        return redact_properties(value)

    @field_serializer("remote")
    def _redact_remote(self, value: str | None) -> str | None:
        return value and redact_urls(value)


class UpkeepSettings(Frozen):
    """When a pipeline's tables are tidied up; snapshots beyond either bound expire."""

    compact_above: int = 20
    keep_snapshots: int = 100
    keep_snapshots_for_seconds: int = 5 * DAY_SECONDS
    orphans_older_than_seconds: int = 3 * DAY_SECONDS


class DeadLetterSettings(Frozen):
    """``stop_above`` is a share of a batch's records, 0.05 for 5 %; None never stops."""

    stop_above: float | None = None


class CheckSetting(Frozen):
    """What a pipeline says about one built-in check; None leaves Sluice's own choice.

    ``limit`` is seconds, records or a share, whatever the check's limit is.
    """

    severity: Severity | None = None
    limit: float | None = None


class NotifySettings(Frozen):
    """Where notices of commits are posted: a URL, references in it unresolved; all of it counts as secret."""

    webhook: SecretStr | None = None


class MetricsSettings(Frozen):
    """Where metrics are served. ``port`` None is the usual one, or a free one if that is taken; 0 is off."""

    port: int | None = None
    host: str = "127.0.0.1"


class PipelineSettings(Frozen):
    """What ``defaults`` and a pipeline may both set."""

    start: Start = Start()
    freshness_seconds: int = DEFAULT_FRESHNESS_SECONDS
    max_batch_records: int = DEFAULT_MAX_BATCH_RECORDS
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    partition_by: tuple[str, ...] = ()
    table_properties: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    owners: tuple[str, ...] = ()
    key_format: KeyFormat = KeyFormat.STRING
    upkeep: UpkeepSettings = UpkeepSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    quality: tuple[Suite, ...] = ()
    checks: dict[str, CheckSetting] = Field(default_factory=dict)
    notify: NotifySettings = NotifySettings()


class PipelineConfig(PipelineSettings):
    """One topic into one table. ``template`` names the ``topics_regex`` entry it was expanded from."""

    name: str
    topic: str
    table: str
    template: str | None = None

    @property
    def dead_letter_table(self) -> str:
        """Table of the records that could not become rows."""
        return self.table + DEAD_LETTERS_SUFFIX

    @property
    def gates(self) -> tuple[Suite, ...]:
        """The suites that a batch has to meet before it is committed."""
        return tuple(suite for suite in self.quality if suite.when is When.GATE)


class PipelineTemplate(PipelineSettings):
    """A ``topics_regex`` entry: a pipeline for every topic that matches whole; ``table`` has ``{topic}``.

    ``file`` and ``line`` say where it is written.
    """

    name: str
    topics_regex: str
    table: str
    file: str = ""
    line: int | None = None


class SluiceConfig(_WithSecrets):
    """Everything one ``sluice.yaml`` and its team files say.

    ``kafka``, ``catalog.properties`` and ``spark.conf`` may hold ``${ENV}`` and ``${file:…}``; they are
    resolved per run by ``spark_jobs.connections.properties``. ``state`` is the transaction log's root, any
    FileIO path. ``home`` is the absolute state folder. ``source`` is the main file, None when there is none.
    ``problems`` are the mistakes of team files whose pipelines are left out.
    """

    version: int = 1
    home: str
    state: str
    kafka: dict[str, str] = Field(default_factory=dict)
    catalog: CatalogSettings
    spark: SparkSettings = SparkSettings()
    metrics: MetricsSettings = MetricsSettings()
    pipelines: tuple[PipelineConfig, ...] = ()
    templates: tuple[PipelineTemplate, ...] = ()
    source: str | None = None
    problems: tuple[ConfigProblem, ...] = ()

    @field_serializer("kafka")
    def _redact(self, value: dict[str, str]) -> dict[str, str]:
        return redact_properties(value)

    @property
    def has_broker(self) -> bool:
        """Whether the file names a broker; if not, the embedded one is meant."""
        return bool(self.kafka.get("bootstrap.servers"))

    def pipeline(self, name: str) -> PipelineConfig | None:
        """The pipeline of that name."""
        return next((pipeline for pipeline in self.pipelines if pipeline.name == name), None)


def _shown(value: object) -> object:
    if isinstance(value, str):
        return redact_urls(value)
    return redact_properties(value) if isinstance(value, dict) else value
