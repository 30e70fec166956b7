"""Events of another source, or of another table, in the topic of a mirror: its rows would be both's."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.debezium.events import NAMELESS
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SourceChanged
from spark_jobs.schema.change_columns import SOURCE
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchRun
    from spark_jobs.mirror.fold import Folded
    from spark_jobs.protocol.progress import Progress

_log = logging.getLogger(__name__)
_OF_SOURCE = ("connector", "name", "db")


def refuse_foreign(run: BatchRun, folded: Folded) -> None:
    """Raise ``SourceChanged`` (``another-source``, ``another-table``) for changes of another than its own."""
    if not folded.is_foreign.any():
        return
    foreign = (
        folded.events.filter(pa.array(folded.is_foreign)).select([PARTITION, OFFSET, SOURCE]).to_pylist()
    )
    event, own = foreign[0], folded.cdc.source
    told, told_own = (json.loads(each or NAMELESS) for each in (event[SOURCE], own))
    is_other_table = bool(told) and all(told.get(name) == told_own.get(name) for name in _OF_SOURCE)
    error = SourceChanged(
        f"the record {event[PARTITION]}:{event[OFFSET]} is a change of {_named(event[SOURCE])}, and the"
        f" mirror is of {_named(own)}",
        code="another-table" if is_other_table else "another-source",
        hint="Rows of one key would take each other's place. With `layout: changes` a table keeps every event"
        " of all of them; or have each told into a topic of its own. If the mirror's source moved there for"
        " good, have it tell all its rows anew, and make the mirror anew from there:"
        f" {mends.act('rebuild', run.pipeline.name, '--from TIME')}",
        pipeline=run.pipeline.name,
        table=run.batch.table,
        partition=event[PARTITION],
        offset=event[OFFSET],
    )
    firsts = {each[PARTITION]: each[OFFSET] for each in reversed(foreign)}
    error.before = run.batch.ranges.before(firsts)
    raise error


def tell_first_source(run: BatchRun, progress: Progress, folded: Folded) -> None:
    """Say whose changes a mirror has from now on, if an earlier version filled it and did not ask."""
    source = folded.cdc.source
    if progress.cdc is not None and progress.cdc.source is None and source is not None:
        _log.warning(
            "the mirror %s is from now on of %s alone, the first that its changes name; an audit says whether"
            " it has others' (batch %s)",
            run.batch.table,
            source,
            run.batch.batch_id,
        )


def _named(source: str | None) -> str:
    if source is None:  # an earlier version filled the mirror
        return "a source that its changes name"
    return "a source that it does not name" if source == NAMELESS else source
