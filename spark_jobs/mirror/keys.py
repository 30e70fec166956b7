"""Keys of a mirror's rows, and the source identities of events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask, Table

from spark_jobs.formats.connect.documents import Documents, KeyNotReadError
from spark_jobs.formats.connect.keys import ITEM, NAME, Spelling
from spark_jobs.lake.data_files import to_scanned_file
from spark_jobs.lake.file_rows import rows_of_file, stream
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.iceberg_types import ROW_ID
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Which keys' rows a batch changed: for who keeps copies of them.


def keys_in(table: Table, files: Sequence[WrittenFile], *, most: int) -> list[str] | None:
    """Return the distinct keys of a batch's events, in order; None if there are more than ``most``.

    None also where one of the files is not there any more. Raises ``RetryableError`` when storage fails.
    """
    keys: set[str] = set()
    schema = table.schema().select(ROW_ID)
    for file in files:
        try:
            for rows in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
                keys.update(rows.column(ROW_ID).unique().to_pylist())
                if len(keys) > most:
                    return None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, "reading a batch's keys", file=file.path) from error
    return sorted(keys)


# Of which fields the keys of rows are: those of JSON objects, none of what is a text.


_PLAIN_TEXT = r"^[^{\s]"


def fields_of(key: str) -> tuple[str, ...]:
    """Return the field names of a key; none for a text key."""
    try:
        read = orjson.loads(key)
    except orjson.JSONDecodeError:
        return ()
    return tuple(read) if type(read) is dict else ()


def first_of_others(keys: pa.ChunkedArray, fields: Sequence[str]) -> int | None:
    """Return the first key with other fields or another order, or None.

    By a pattern: to parse each took half a microsecond, seven times as long.
    """
    named = (re.escape(orjson.dumps(name).decode()) for name in fields)
    pattern = rf"^\{{{','.join(f'{name}:{ITEM}' for name in named)}\}}$" if fields else _PLAIN_TEXT
    in_doubt = pc.invert(pc.match_substring_regex(keys, pattern)).to_numpy()
    others = (at for at in np.flatnonzero(in_doubt).tolist() if fields_of(keys[at].as_py()) != tuple(fields))
    return next(others, None)


# Mirrors of earlier versions, which kept keys as they were written: one key may have several rows there.


# Bare numbers, and bare texts that are nothing else.
_SPELLED = rf'^(?:\{{{NAME}:{ITEM}(?:,{NAME}:{ITEM})*\}}|0|[1-9][0-9]{{0,17}}|[^-{{"\[\s0-9][^\s]*)$'


def refuse_other_spellings(table: Table, spelling: Spelling, pipeline: str) -> None:
    """Raise ``ConfigError`` (``mirror-key-spelling``) if a mirror has a key in another spelling.

    Once a commit has looked at them all, its table says so. Raises as storage does.
    """
    cdc = progress_of(table).cdc
    if cdc is None or cdc.is_spelled or (key := other_in(table, spelling)) is None:
        return
    raise fault(
        "mirror-key-spelling",
        written=key,
        spelled=_spelled(key, spelling) or "differently",
        pipeline=pipeline,
        table=".".join(table.name()),
    )


def other_in(table: Table, spelling: Spelling) -> str | None:
    """Return a key of the table's rows with another spelling, or None."""
    parts = stream(table.scan(selected_fields=(ROW_ID,)), pa.schema([(ROW_ID, pa.string())]))
    return next(
        (key for part in parts if (key := other_among(part.column(ROW_ID), spelling)) is not None), None
    )


def other_among(keys: pa.Array | pa.ChunkedArray, spelling: Spelling) -> str | None:
    """Return the first of the keys with another spelling, or None."""
    in_doubt = keys.filter(pc.invert(pc.match_substring_regex(keys, _SPELLED))).to_pylist()
    return next((key for key in in_doubt if _spelled(key, spelling) != key), None)


def _spelled(key: str, spelling: Spelling) -> str | None:
    with suppress(KeyNotReadError):
        return spelling.read(Documents(), key.encode()).text
    return None


# Which identity of its source an event is of: its positions are compared with those of the same one alone.
#
# A database that is restored from a backup counts its log from an earlier place. Once an operator accepted
# that, what is told from there on is of another identity.


Restarts = Sequence[Mapping[int, int]]


def identities_of(
    partitions: NDArray[np.int64], offsets: NDArray[np.int64], restarts: Restarts
) -> NDArray[np.int64]:
    """Return, by event, the number of source restarts up to and including it.

    ``restarts`` are first offsets by partition; a partition that one does not name was added since.
    """
    identities = np.zeros(len(offsets), np.int64)
    for partition in each_once(partitions).tolist() if restarts else ():
        at = partitions == partition
        for firsts in restarts:
            identities[at] += offsets[at] >= firsts.get(partition, 0)
    return identities


def identity_of(partition: int, offset: int, restarts: Restarts) -> int:
    """Return the number of source restarts up to and including one event."""
    return sum(offset >= firsts.get(partition, 0) for firsts in restarts)


@dataclass(frozen=True, slots=True)
class Cut:
    """A truncate of the source's table: rows below ``sequence`` in its log no longer exist.

    So is all of the identities before.
    """

    identity: int
    sequence: int
    restarts: Restarts = ()

    def takes(
        self, partitions: NDArray[np.int64], offsets: NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return the mask of rows or events that the truncate removes."""
        identities = identities_of(partitions, offsets, self.restarts)
        is_same = identities == self.identity
        removed: NDArray[np.bool_] = (identities < self.identity) | (is_same & (sequences < self.sequence))
        return removed


# Numbers of rows and partitions, each once.


def each_once(numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the distinct numbers in order.

    NumPy sorts when it is asked for counts, too. Without them it hashes: 1.3 µs a position, 50 times as long.
    """
    found: NDArray[np.int64] = np.unique(numbers, return_counts=True)[0].astype(np.int64, copy=False)
    return found
