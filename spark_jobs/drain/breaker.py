"""The breaker: a batch that would send too much to the dead letters stops its pipeline instead.

A format that changed makes every record a dead letter: each is kept, and the table stands still unnoticed.
"""

from __future__ import annotations

from textwrap import shorten

import pyarrow.parquet as pq

from spark_jobs.drain.batch_run import BatchRun
from spark_jobs.drain.written import Written
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import total
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

# A few bad records of a small batch are a large share of it, and no change of format.
FEWEST_DEAD_LETTERS = 10


def stop_above_share(run: BatchRun, written: Written) -> None:
    """Raise ``BadRecord`` (``too-many-dead-letters``) when the batch's share of them is above the limit.

    Called before anything says that the files are complete, so that no recovery commits them either.
    """
    limit = run.pipeline.dead_letters.stop_above
    sums = total(written.balances.values())
    if limit is None or sums.dead_letters < FEWEST_DEAD_LETTERS or sums.dead_letters <= limit * sums.records:
        return
    name = run.pipeline.name
    raise BadRecord(
        f"{sums.dead_letters:,} of {sums.records:,} records would become dead letters, more than {limit:.2%};"
        f" the first: {_first_dead_letter(run, written)}",
        code="too-many-dead-letters",
        hint="Nothing was committed. See what the records became with"
        f" {mends.command('preview', name)}; then mend the"
        " producer or `columns`, raise `dead_letters.stop_above` to take them as dead letters, or leave them"
        f" out with {mends.command('skip', name)}.",
        pipeline=name,
        table=run.plan.batch.table,
        ranges=run.plan.batch.ranges,
    )


def _first_dead_letter(run: BatchRun, written: Written) -> str:
    """Coordinates, phase and error of the first one that was written."""
    path = written.dead_letter_files[0].path
    with run.plan.dead_letter_table.io.new_input(path).open() as stream:
        columns = pq.ParquetFile(stream).read_row_group(0, columns=[PARTITION, OFFSET, "phase", "error"])
    first = columns.slice(0, 1).to_pylist()[0]
    text = f"{first[PARTITION]}:{first[OFFSET]} ({first['phase']}), {first['error']}"
    return shorten(text, 200, placeholder=" …")
