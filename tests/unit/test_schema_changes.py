"""What became of columns."""

from __future__ import annotations

from spark_jobs.health.table_facts import schema_changes


def test_each_change_is_one_phrase() -> None:
    """Ids tell a rename from a drop and an addition."""
    before = {1: ("id", "int"), 2: ("note", "string"), 3: ("old", "date")}
    after = {1: ("id", "long"), 2: ("remark", "string"), 4: ("who.name", "string")}
    assert schema_changes(before, after) == (
        "changed id from int to long",
        "renamed note to remark",
        "added who.name (string)",
        "dropped old",
    )
    assert schema_changes(after, after) == ()
