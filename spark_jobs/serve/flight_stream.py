"""An answer's rows on their way over Flight, which cannot be told to give up a client that takes nothing."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

from spark_jobs.protocol.errors import RetryableError
from spark_jobs.serve.flight_errors import flight_error

if TYPE_CHECKING:
    import pyarrow as pa

_PART_BYTES = 4 << 20  # ADBC's driver takes no message of 16 MiB
_SEND_SECONDS = 5.0  # what a client has to take the last of an answer after its time is over


class Rows:
    """Closes the query behind its last row, with whatever fails, and when its time is over.

    Then its slot is free, whether the client takes what was sent or not; one that asks on is told, so that no
    part of an answer looks whole.
    """

    def __init__(self, stack: ExitStack, batches: Iterator[pa.RecordBatch], seconds: float) -> None:
        self._stack = stack
        self._batches = chain.from_iterable(map(_parts, batches))
        self._lock = threading.Lock()
        self._is_late = False
        # It does not keep this: once the client has gone, nobody else does, and the query ends.
        self._timer = threading.Timer(seconds + _SEND_SECONDS, _give_up, [weakref.ref(self)])
        self._timer.daemon = True
        self._timer.start()

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self._is_late:
                raise flight_error(_too_slow())
            try:
                return next(self._batches)
            except StopIteration:
                self._close()
                raise
            except BaseException as error:
                self._close()
                raise flight_error(error) from error

    def __del__(self) -> None:
        self._close()

    def give_up(self) -> None:
        """Close it, whether the client takes what was sent or not."""
        with self._lock:
            self._is_late = True
            self._stack.close()

    def _close(self) -> None:
        self._timer.cancel()
        self._stack.close()


def _give_up(of: weakref.ref[Rows]) -> None:
    if (rows := of()) is not None:
        rows.give_up()


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, len(batch) * _PART_BYTES // max(1, batch.nbytes))
    return (batch.slice(first, rows) for first in range(0, len(batch), rows))


def _too_slow() -> RetryableError:
    return RetryableError(
        "the answer was not taken in the time that a query may take",
        code="query-timeout",
        hint="Take it faster or ask for less at once, or raise `serve.query_timeout`.",
    )
