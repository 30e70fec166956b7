"""Many values at once: joined they are an Avro file of one block, which DataFusion reads into columns.

Why the guard is enough: the reader sees no boundaries, so each value is followed by the same random bytes,
which the file's schema has as its last field. Read where they are expected as often as there are values, they
were met where the values end, for no value can hold them: each was consumed exactly.

Of a block with bytes behind its last row the reader never comes back. So the block claims more rows than
there can be, and a batch has as many as there are values: there the reader stops, and bytes left over are
another row or an error.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.avro.columns import top_fields
from spark_jobs.avro.conversion import DoubtError, plain_record, to_columns, with_names
from spark_jobs.avro.parsing import Type
from spark_jobs.schema.arrow_schema import no_rows

if TYPE_CHECKING:
    from datafusion import SessionContext

# A call costs as much as so many values read by themselves.
FEWEST_VALUES = 120
_MANY_ROWS = 1 << 40
_MARK, _MARK_BYTES = "mark", 16
_SYNC = bytes(16)


class BlockReader:
    """Reads values of one schema at once; nothing is called before the first of them."""

    def __init__(self, root: Type, columns: pa.Schema) -> None:
        self._fields = top_fields(root)
        self._columns = columns
        self._header = b""
        self._file_schema: pa.Schema | None = None
        self._is_known: bool | None = None

    def read(self, values: Sequence[bytes]) -> pa.Table | None:
        """Return values as rows, None when there is any doubt about one of them."""
        if not self._can_read():
            return None
        try:
            return self._read(values)
        except (DoubtError, pa.ArrowException):
            return None

    def _can_read(self) -> bool:
        """False where a call would never return, and of a schema that DataFusion does not know."""
        if not _is_callable_here():
            return False
        if self._is_known is None:
            try:
                self._header = _header(plain_record(self._fields, _MARK, _MARK_BYTES))
                with _file((self._header,)) as path:
                    self._file_schema = with_names(_session(1).read_avro(path).schema())
                self._read(())
            except Exception:  # noqa: BLE001  (DataFusion's have no class of their own)
                self._is_known = False
            else:
                self._is_known = True
        return self._is_known

    def _read(self, values: Sequence[bytes]) -> pa.Table:
        mark = secrets.token_bytes(_MARK_BYTES)
        tables = []
        for batch in self._batches(values, mark):
            *arrays, marks = batch.columns
            if not pc.all(pc.equal(marks, pa.scalar(mark, marks.type))).as_py():
                raise DoubtError("a value was not consumed exactly")
            tables.append(to_columns(self._fields, arrays, batch.num_rows, self._columns))
        table = pa.concat_tables([no_rows(self._columns), *tables])
        if table.num_rows != len(values):
            raise DoubtError("not a row for each value")
        table.validate(full=True)
        return table

    def _batches(self, values: Sequence[bytes], mark: bytes) -> list[pa.RecordBatch]:
        parts = [self._header]
        if values:
            body = mark.join(values)
            parts += [_long(_MANY_ROWS), _long(len(body) + len(mark)), body, mark, _SYNC]
        with _file(parts) as path:
            try:
                rows = _session(len(values)).read_avro(path, schema=self._file_schema).collect()
            except Exception as error:  # what it raises has no class of its own
                raise DoubtError(str(error)) from error
        return list(rows)


def _header(schema: object) -> bytes:
    text = json.dumps(schema).encode()
    meta = (b"avro.schema", text, b"avro.codec", b"null")
    return b"".join(
        (b"Obj\x01", _long(2), *(part for each in meta for part in (_long(len(each)), each)), b"\0", _SYNC)
    )


def _long(number: int) -> bytes:
    """Return a number that is not negative as Avro writes it."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:  # noqa: PLR2004
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*written, rest))


@contextmanager
def _file(parts: Sequence[bytes]) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(prefix="sluice-", suffix=".avro", buffering=0) as file:
        for part in parts:
            file.write(part)
        yield file.name


def _session(rows: int) -> SessionContext:
    from datafusion import SessionConfig, SessionContext  # noqa: PLC0415  (who reads JSON alone needs it not)

    _called_in.add(os.getpid())
    # One partition: rows come in the order of the values.
    return SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(max(rows, 1)))


_called_in: set[int] = set()


def _is_callable_here() -> bool:
    """False in a process forked from one that called DataFusion: its threads are gone, a call never ends."""
    return not _called_in or os.getpid() in _called_in
