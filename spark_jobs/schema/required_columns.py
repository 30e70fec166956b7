"""Required columns that nothing fills: another engine added them, and no row could be written any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.metadata_columns import GENERATION, INGESTED_AT, OFFSET, PARTITION, TOPIC

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.table import Table

# What no letter is without.
_OF_LETTERS = {TOPIC, PARTITION, OFFSET, GENERATION, INGESTED_AT, "phase", "error", "batch_id"}


def check_own(table: Table, declared: Collection[str]) -> None:
    """Raise ``ConfigError`` (``required-column``) for one that was added to a pipeline's own table.

    Sluice adds optional ones. One that was made required later is left to its records: those without a value
    are dead letters. So is one that is declared.
    """
    required = {
        each.field_id for each in table.schema().fields if each.required and each.name not in declared
    }
    first, *later = sorted(table.schemas().values(), key=lambda schema: schema.schema_id)
    seen = {each.field_id for each in first.fields}
    for schema in later:
        for each in schema.fields:
            if each.required and each.field_id in required - seen:
                raise required_column(".".join(table.name()), each.name, " Or declare it in `columns`.")
        seen |= {each.field_id for each in schema.fields}


def check_beside(
    own: Table, letters: Table | None, routed: Iterable[Table | None], declared: Collection[str]
) -> None:
    """Raise it for one of a dead-letter table, or of a table that rows are routed to, which theirs lack.

    ``declared`` are columns of letters.
    """
    filled = {field.name for field in own.schema().fields}
    for table, names in ((letters, {*_OF_LETTERS, *declared}), *((each, filled) for each in routed)):
        if table is not None:
            for each in table.schema().fields:
                if each.required and each.name not in names:
                    raise required_column(".".join(table.name()), each.name)


def required_column(table: str, column: str, or_else: str = "") -> ConfigError:
    """Return what to say of one without a value; ``or_else`` is another way out.

    A task knows of its table the location alone.
    """
    name = "TABLE" if "/" in table else table
    return ConfigError(
        f"column {column} of {table} is required, and Sluice has no value for it",
        code="required-column",
        hint=f"Make it optional: ALTER TABLE {name} ALTER COLUMN {column} DROP NOT NULL.{or_else}",
        table=table,
        column=column,
    )
