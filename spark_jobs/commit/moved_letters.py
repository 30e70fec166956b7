"""Dead letters that a debt puts back into their table, beside the files it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.commit.replace import ReplacedOffsets, affected_files
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.kept_letters import read_letters
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.metadata_columns import GENERATION, OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from spark_jobs.commit.landing import CatalogAccess
    from spark_jobs.commit.replace import Rewriter
    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import PendingDeadLetters


def returning(
    connections: CatalogAccess, table: Table, generation: int, owed: PendingDeadLetters, rewriter: Rewriter
) -> Iterator[WrittenFile]:
    """Write the letters that come back, but those of places that have one. Raises as ``read_letters``."""
    schema = arrow_schema(table.schema())
    for kept in owed.returned:
        letters = read_letters(connections.state, kept)
        there = rows_at(table, ReplacedOffsets(generation, Coordinates.of_rows(letters)))
        missing = letters.filter(pa.array(~Coordinates.of_rows(there).holds(letters)))
        columns = [
            missing.column(field.name).cast(field.type)
            if field.name in missing.column_names
            else pa.nulls(len(missing), field.type)
            for field in schema
        ]
        yield from rewriter.write(table, kept.name, pa.Table.from_arrays(columns, schema=schema))


def rows_at(table: Table, places: ReplacedOffsets) -> pa.Table:
    """Return the coordinates of the rows that stand at one of the places. Raises as ``affected_files``."""
    columns = table.schema().select(GENERATION, PARTITION, OFFSET)
    found = [arrow_schema(columns).empty_table()]
    try:
        for task in affected_files(table, places):
            rows = rows_of_file(table.io, task, columns)
            found += [each.filter(pa.array(places.holds(each))) for each in rows]
    except OSError as error:
        raise storage_error(error, "reading coordinates", table=".".join(table.name())) from error
    return pa.concat_tables(found)
