"""``value``: what the records' values are written in, and where their schemas come from. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.problems import Finding
from spark_jobs.config.values import FileBelow, OneOrMany, RegistryName, choice


class ValueFormat(StrEnum):
    """What values are written in."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    STRING = "string"
    RAW = "raw"

    @property
    def has_schema(self) -> bool:
        """True if nobody can read such a value without the schema it was written with."""
        return self in (ValueFormat.AVRO, ValueFormat.PROTOBUF)


class UnknownFields(StrEnum):
    """What becomes of a value with fields that its schema does not know."""

    DEAD_LETTER = "dead_letter"
    IGNORE = "ignore"


class ValueSettings(Frozen):
    """What the records' values are written in, and where their schemas are."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "json",
        "`json` objects; `avro` or `protobuf`, by a schema; or one column `value` of all there is: `string`"
        " (UTF-8), `raw` (bytes).",
    )
    registry: RegistryName | None = key(
        None,
        "The registry, by its name under `registries`. Values say which schema they were written with, as"
        " Confluent's serializers do: an id before the value, or a header `__value_schema_id`.",
    )
    file: FileBelow | None = key(
        None,
        "A file with the schema of all values, which then have no id: a path below the folder of"
        " `sluice.yaml`.",
    )
    message: str | None = key(
        None,
        "Protobuf: the message in that file, by its full name or the last part of it.",
        shown="the only one",
    )
    include: OneOrMany[FileBelow] = key(
        (), "Protobuf: folders below that of `sluice.yaml` whose files it may import.", shown="none"
    )
    unknown_fields: Annotated[UnknownFields, choice(UnknownFields)] = key(
        "dead_letter",
        "Protobuf: what becomes of a value with fields that its schema does not know: a `dead_letter`, or a"
        " row (`ignore`), the fields being counted by number and kept nowhere.",
    )

    @property
    def is_framed(self) -> bool:
        """True if each value names its schema."""
        return self.registry is not None


def check_value(value: ValueSettings, registries: Collection[str]) -> Finding | None:
    """Return what a pipeline's settings contradict, defaults and all."""
    if not value.format.has_schema:
        return None
    if value.registry is not None and value.file is not None:
        return Finding((), "has both registry and file", "Keep one: where the schema is.")
    if value.registry is None and value.file is None:
        hint = "Add registry: NAME, or file: PATH."
        return Finding((), f"{value.format} cannot be read without a schema", hint)
    if value.registry is not None and value.registry not in registries:
        known = ", ".join(sorted(registries)) or "none"
        return Finding(("registry",), f"names no registry: {value.registry}", f"`registries` has {known}.")
    return None
