"""``value`` and ``key``: what records are written in, and where their schemas come from. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from spark_jobs.config import values
from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.values import Frozen, choice, key


class ValueFormat(StrEnum):
    """What values are written in."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"
    CSV = "csv"
    STRING = "string"
    RAW = "raw"

    @property
    def has_schema(self) -> bool:
        """True if such a value is read by the schema it was written with."""
        return self in (ValueFormat.AVRO, ValueFormat.PROTOBUF, ValueFormat.JSON_SCHEMA)


_HAVE_SCHEMAS = frozenset(each for each in ValueFormat if each.has_schema)
_CSV = {ValueFormat.CSV}
# What is said of some formats alone, and which use it.
_USED_BY = {
    "registry": _HAVE_SCHEMAS,
    "file": _HAVE_SCHEMAS,
    "framing": _HAVE_SCHEMAS,
    "subject": _HAVE_SCHEMAS,
    "version": _HAVE_SCHEMAS,
    "message": {ValueFormat.PROTOBUF},
    "include": _HAVE_SCHEMAS - {ValueFormat.AVRO},
    "unknown_fields": _HAVE_SCHEMAS - {ValueFormat.AVRO},
    **dict.fromkeys(("columns", "delimiter", "header", "encoding"), _CSV),
}


class Framing(StrEnum):
    """How something that is written by a registry's schema says by which."""

    CONFLUENT = "confluent"
    NONE = "none"


class UnknownFields(StrEnum):
    """What becomes of a value with fields that its schema does not know."""

    DEAD_LETTER = "dead_letter"
    IGNORE = "ignore"


class SchemaPlace(Frozen):
    """Where the schemas are that something is written with."""

    format: ValueFormat
    registry: values.RegistryName | None = key(
        None,
        "The registry, by its name under `registries`.",
    )
    framing: Annotated[Framing, choice(Framing)] = key(
        "confluent",
        "With a registry: which schema was written with stands in an id before the bytes, or in a header"
        " `__value_schema_id` (`__key_schema_id`), as Confluent's serializers do; or nowhere (`none`).",
    )
    subject: str | None = key(
        None,
        "Where no id says it: what the schema is registered as.",
        shown="TOPIC-value, of keys TOPIC-key",
    )
    version: values.SchemaVersion = key(
        "latest",
        "Where no id says it: the subject's version. `latest` is asked for whenever a batch is planned; what"
        " was drained by one is read by it for ever.",
    )
    file: values.FileBelow | None = key(
        None,
        "A file with the one schema, where there are no ids: a path below the folder of `sluice.yaml`.",
    )
    message: str | None = key(
        None,
        "Protobuf: the message in that file, or of that subject, by its full name or the last part of it.",
        shown="the only one",
    )
    include: values.OneOrMany[values.FileBelow] = key(
        (),
        "Protobuf, JSON Schema: folders below that of `sluice.yaml` whose files (`.proto`, `.json`) it may"
        " refer to, by their path in there.",
        shown="none",
    )
    unknown_fields: Annotated[UnknownFields, choice(UnknownFields)] = key(
        "dead_letter",
        "Protobuf, JSON Schema: what becomes of a value with fields that its schema does not know: a"
        " `dead_letter`, or a row (`ignore`), the fields being counted by number or name and kept nowhere.",
    )

    @property
    def is_framed(self) -> bool:
        """True if each value names its schema."""
        return self.registry is not None and self.framing is Framing.CONFLUENT

    @property
    def is_by_version(self) -> bool:
        """True if the version of a subject says by which schema all are read."""
        return self.format.has_schema and self.registry is not None and self.framing is Framing.NONE


class ValueSettings(SchemaPlace):
    """What the records' values are written in, and where their schemas are."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "json",
        "`json` objects; `avro`, `protobuf` or `json_schema`, by a schema; a line of `csv`; or one column"
        " `value` of all there is: `string` (UTF-8), `raw` (bytes).",
    )
    columns: values.OneOrMany[values.ColumnName] = key(
        (),
        "CSV: the names of all fields, in their order. The pipeline's `columns` give them types.",
        shown="none",
    )
    delimiter: values.Delimiter = key(",", "CSV: the character between two fields.")
    header: values.HasHeader = key(
        None, "CSV: a line that is the names in `columns` is no row: passed over and counted.", shown="false"
    )
    encoding: values.TextEncoding = key(
        "utf-8", "CSV: what the bytes are, by Python's name: `latin-1`, `cp1252`."
    )


class KeySettings(SchemaPlace):
    """What the records' keys are written in, and where their schemas are."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "string",
        "`string` (UTF-8), as which `_kafka_key` holds it; `raw` bytes; or, by a schema, `avro`, `protobuf`"
        " or `json_schema`: `_kafka_key` then holds the bytes, and a column of its own what they say.",
    )
    column: str = key("key", "The column of what a key with a schema says.", alias="as")

    @property
    def is_binary(self) -> bool:
        """True if ``_kafka_key`` holds bytes."""
        return self.format is not ValueFormat.STRING


def check_place(value: SchemaPlace, registries: Collection[str], own: Collection[str]) -> Finding | None:
    """Return what a pipeline's settings contradict, defaults and all.

    What its format does not use is refused of its ``own`` alone: defaults are for several formats.
    """
    if isinstance(value, KeySettings) and (finding := _check_key(value)) is not None:
        return finding
    if (finding := _check_format(value, own)) is not None or not value.format.has_schema:
        return finding
    if value.registry is not None and value.file is not None:
        return mistake("both-schemas")
    if value.registry is None and value.file is None:
        return mistake("no-schema", format=value.format)
    if value.registry is not None and value.registry not in registries:
        known = ", ".join(sorted(registries)) or "none"
        return mistake("no-such-registry", ("registry",), name=value.registry, known=known)
    return _check_framing(value) or _check_text(value, own)


def _check_format(value: SchemaPlace, own: Collection[str]) -> Finding | None:
    for each, formats in _USED_BY.items():
        if each in own and value.format not in formats:
            if value.format.has_schema:
                return mistake("not-used-by", (each,), format=value.format)
            others = "csv" if formats is _CSV else "avro, protobuf or json_schema"
            return mistake("used-by-others", (each,), format=value.format, others=others)
    names = value.columns if isinstance(value, ValueSettings) else ()
    if value.format is ValueFormat.CSV and len({*names, ""}) <= max(len(names), 1):
        return mistake("csv-columns", ("columns",))
    return None


def _check_text(value: SchemaPlace, own: Collection[str]) -> Finding | None:
    if "message" in own and value.is_framed:
        return mistake("said-where-framed", ("message",))
    if "include" in own and value.file is None:
        return mistake("said-of-a-registry", ("include",))
    return None


def _check_framing(value: SchemaPlace) -> Finding | None:
    written = value.model_fields_set
    if value.file is not None and "framing" in written and value.framing is not Framing.NONE:
        return mistake("framing-of-a-file", ("framing",))
    for each in ("subject", "version"):
        if each in written and not value.is_by_version:
            return mistake("said-where-framed" if value.is_framed else "said-of-a-file", (each,))
    return None


def _check_key(key: KeySettings) -> Finding | None:
    if key.format in (ValueFormat.JSON, ValueFormat.CSV):
        return mistake("format-of-keys", ("format",), format=key.format)
    if not key.format.has_schema and "column" in key.model_fields_set:
        return mistake("key-without-column", ("as",), format=key.format)
    if not key.column:
        return mistake("key-column-empty", ("as",))
    if key.column.startswith("_"):
        return mistake("key-column-of-ours", ("as",))
    return None
