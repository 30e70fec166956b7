"""``value``: what the records' values are written in, and where their schemas come from. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated

from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.problems import Finding
from spark_jobs.config.values import FileBelow, RegistryName, choice


class ValueFormat(StrEnum):
    """What values are written in."""

    JSON = "json"
    AVRO = "avro"
    STRING = "string"
    RAW = "raw"

    @property
    def has_schema(self) -> bool:
        """True if nobody can read such a value without the schema it was written with."""
        return self is ValueFormat.AVRO


class ValueSettings(Frozen):
    """What the records' values are written in, and where their schemas are."""

    format: Annotated[ValueFormat, choice(ValueFormat)] = key(
        "json",
        "`json` objects; `avro`, by a schema; or one column `value` of all there is: `string` (UTF-8), `raw`"
        " (bytes).",
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
