"""A record that alone brings so many new fields that they are no columns: keys that are data. Pure."""

from __future__ import annotations

from spark_jobs.schema.evidence import Evidence, every_field
from spark_jobs.schema.inference import Field, count_columns
from spark_jobs.schema.unknown_fields import says_something, unknown_fields

# New fields that one record may bring which no other of its batch has.
MOST_ALONE = 100


def without_bursts(
    evidence: Evidence, columns: tuple[Field, ...], max_columns: int, *, most_alone: int = MOST_ALONE
) -> Evidence:
    """Return the evidence without the new fields that one record brings too many of.

    Those are more than ``most_alone`` that it alone has; or more than there is room for, at any depth, so
    that it cannot be a row itself. What more records have stays.
    """
    room = max_columns - count_columns(columns)
    unknown = dict(unknown_fields(columns, evidence))  # once each: a map has it by many keys
    new = filter(says_something, every_field(unknown))
    return evidence.without_bursts(new, room, most_alone)
