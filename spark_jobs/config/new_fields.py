"""What becomes of fields that a table has no column for, and how wide a table may grow. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class NewFields(StrEnum):
    """What becomes of a record's field that has no column."""

    ADD = "add"
    IGNORE = "ignore"
    DEAD_LETTER = "dead_letter"


class Incompatible(StrEnum):
    """What becomes of a schema's field whose values its column does not hold."""

    NEW_COLUMN = "new_column"
    DEAD_LETTER = "dead_letter"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Growth:
    """How a table takes new fields; fields inside structs are counted, Sluice's own columns are not.

    With ``is_by_schema`` there are none: values say only what their schema names.
    """

    new_fields: NewFields = NewFields.ADD
    max_columns: int = 1000
    has_ended: bool = False
    is_by_schema: bool = False

    @property
    def room(self) -> int:
        """How many columns a table may have and still get another."""
        return self.max_columns if self.new_fields is NewFields.ADD and not self.has_ended else 0

    @property
    def ignores(self) -> bool:
        """True if a record is a row although it says more than the row."""
        return self.new_fields is NewFields.IGNORE

    @property
    def max_fields_seen(self) -> int:
        """Of how many fields evidence is kept: who sends more than can be columns must not fill memory."""
        return 4 * self.max_columns

    def ended(self) -> Growth:
        """Return the same for a table that gets no more columns, nor schemas to read by."""
        return replace(self, has_ended=True)


GROWTH = Growth()
