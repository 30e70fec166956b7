"""What is said where a field is of a type that its column does not hold, and nobody is to guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_jobs.config.value_format import Layout
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.iceberg_types import type_text

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType, NestedField


def incompatible(
    written: NestedField,
    path: Sequence[str],
    there: IcebergType,
    layout: Layout,
    *,
    is_declared: bool = False,
    is_of_key: bool = False,
) -> ConfigError:
    """Return the error. ``is_of_key``: a rebuild met it, which takes any type but in a column of the key."""
    column, kind, own = ".".join(path), type_text(there), type_text(written.field_type)
    if is_of_key:
        return ConfigError(
            f"the source has {written.name} as {own}, column {column} is {kind}, and is of the key: rows of"
            " one key would be there twice",
            code="schema-incompatible",
            hint="Nothing was committed. Have the connector tell all rows anew (a new snapshot), and make the"
            f" mirror anew from there: {mends.act('rebuild', 'PIPELINE', '--from TIME')}.",
        )
    if layout is Layout.MIRROR:
        declared = f" Leave {column} out of `columns:`." if is_declared else ""
        return ConfigError(
            f"the source has {written.name} as {own}, column {column} is {kind}",
            code="schema-incompatible",
            hint=f"Nothing was committed.{declared} Make the mirror anew, which takes the new type:"
            f" {mends.act('rebuild', 'PIPELINE')}. Or say `schema: {{incompatible: new_column}}`: a column"
            " beside it has the values from then on.",
        )
    if layout is Layout.CHANGES:
        return ConfigError(
            f"the source has {written.name} as {own}, column {column} is {kind}",
            code="schema-incompatible",
            hint="Nothing was committed. Have the connector tell all rows anew (a new snapshot), and let the"
            " pipeline begin there with a table of another name, which gets the new type: `table:` and"
            " `start: TIME`. Or say `schema: {incompatible: new_column}`: a column beside it has the values"
            " from then on.",
        )
    return ConfigError(
        f"a schema has {written.name} as {own}, and the column {column} is {kind}",
        code="schema-incompatible",
        hint="Nothing was committed. Have the producers go back, say `schema: {incompatible: new_column}` (or"
        " dead_letter), or give the column a type that holds both:"
        f" {mends.act('retype', 'PIPELINE', path[0], 'TYPE')}.",
    )
