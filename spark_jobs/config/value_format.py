"""Settings ``value`` and ``key``: formats of records and places of their schemas. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from spark_jobs.config import values
from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.values import Frozen, choice, key


class ValueFormat(StrEnum):
    """Format of values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"
    CSV = "csv"
    STRING = "string"
    RAW = "raw"

    @property
    def has_schema(self) -> bool:
        """True if values are read by the schema that they were written with."""
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
    """How bytes written with a registry's schema name it."""

    CONFLUENT = "confluent"
    APICURIO = "apicurio"
    APICURIO_GLOBAL = "apicurio_global"
    GLUE = "glue"
    NONE = "none"


class UnknownFields(StrEnum):
    """Handling of a value with fields that its schema does not define."""

    DEAD_LETTER = "dead_letter"
    IGNORE = "ignore"


class SchemaPlace(Frozen):
    """Place of the schemas of values or keys."""

    format: ValueFormat
    registry: values.RegistryName | None = key(
        None,
        "The schema registry, a name under `registries`.",
    )
    framing: Annotated[Framing, choice(Framing)] = key(
        "confluent",
        "With a registry: how values name their schemas ([Formats](formats.md#which-schema-a-value-names))."
        " `none`: not at all; `subject` and `version` choose the schema.",
    )
    subject: str | None = key(
        None,
        "With `framing: none`: the subject of the schema. If unset, `TOPIC-value`, or `TOPIC-key` for keys.",
    )
    version: values.SchemaVersion = key(
        "latest",
        "With `framing: none`: the version of the subject. `latest` is looked up for every batch.",
    )
    file: values.FileBelow | None = key(
        None,
        "File with the schema, for values without ids: a path below the folder of `sluice.yaml`.",
    )
    message: str | None = key(
        None,
        "Protobuf: the message in the file or subject, by its full name or last part. Required if there are"
        " several.",
    )
    include: values.OneOrMany[values.FileBelow] = key(
        (),
        "Protobuf, JSON Schema: folders below that of `sluice.yaml` with files (`.proto`, `.json`) that the"
        " schema imports, by their path within the folder.",
    )
    unknown_fields: Annotated[UnknownFields, choice(UnknownFields)] = key(
        "dead_letter",
        "Protobuf, JSON Schema: handling of a value with fields that its schema does not define."
        " `dead_letter`: it becomes a dead letter. `ignore`: it becomes a row; the fields are dropped and"
        " counted by number or name.",
    )

    @property
    def is_framed(self) -> bool:
        """True if each value names its schema."""
        return self.registry is not None and self.framing is not Framing.NONE

    @property
    def is_by_version(self) -> bool:
        """True if all values are read by one version of a subject."""
        return self.format.has_schema and self.registry is not None and self.framing is Framing.NONE


class ValueSettings(SchemaPlace):
    """Format of the records' values and place of their schemas."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "json",
        "`json` (objects), `csv` (one line), `avro`, `protobuf` or `json_schema` (with a schema), or one"
        " column `value` with the whole value: `string` (UTF-8) or `raw` (bytes).",
    )
    columns: values.OneOrMany[values.ColumnName] = key(
        (),
        "CSV: the names of all fields, in order. Their types are set in the pipeline's `columns`.",
    )
    delimiter: values.Delimiter = key(",", "CSV: the field separator.")
    header: values.HasHeader = key(
        None, "CSV: skip and count lines that repeat the names in `columns`.", shown="false"
    )
    encoding: values.TextEncoding = key(
        "utf-8", "CSV: Python's name of the text encoding, for example `latin-1` or `cp1252`."
    )


class KeySettings(SchemaPlace):
    """Format of the records' keys and place of their schemas."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "string",
        "`string` (UTF-8) or `raw` (bytes) in `_kafka_key`; or `avro`, `protobuf` or `json_schema` with a"
        " schema: `_kafka_key` has the bytes and an additional column the decoded key.",
    )
    column: str = key("key", "Column of the decoded key.", alias="as")

    @property
    def is_binary(self) -> bool:
        """True if ``_kafka_key`` holds bytes."""
        return self.format is not ValueFormat.STRING


def check_place(value: SchemaPlace, registries: Collection[str], own: Collection[str]) -> Finding | None:
    """Return the first contradiction in a pipeline's settings, including inherited defaults.

    Settings that its format does not use are refused only among its ``own``: defaults serve several formats.
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
