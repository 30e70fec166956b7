"""``mirror``: a table with one live row a key. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from spark_jobs.config.frozen import Frozen
from spark_jobs.config.frozen import key as setting
from spark_jobs.config.values import OneOrMany, SourceName, choice


class BadChanges(StrEnum):
    """What becomes of a change that cannot be a row."""

    STOP = "stop"
    DEAD_LETTERS = "dead_letters"


class MirrorSettings(Frozen):
    """A table that is as its source is, with `layout: mirror` (docs/CHANGE_DATA.md)."""

    key: OneOrMany[str] = setting(
        (),
        "The fields that the records' keys have; other keys stop drains (`mirror-key-changed`).",
        shown="those of the first batch",
    )
    bad_changes: Annotated[BadChanges, choice(BadChanges)] = setting(
        "stop",
        "What becomes of a change that cannot be a row: `stop`, nothing is committed, as the row of its key"
        " would be wrong; or `dead_letters`, and the check `exact` fails from then on.",
    )
    source: SourceName | None = setting(None, "The database it is of, by its name under `sources`.")
