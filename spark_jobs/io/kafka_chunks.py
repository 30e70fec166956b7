"""Messages into columns, in chunks that stay small when messages grow. Knows nothing of ends or errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from confluent_kafka import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Headers = list[tuple[str, bytes | None]]

_headers = cast("Callable[[Message], Headers | None]", Message.headers)  # as a consumer gives them
# One call's worth: large enough that the call costs nothing, small enough to hear of large messages soon.
MAX_SLICE_RECORDS = 1_000
FIRST_SLICE_RECORDS = 100


@dataclass(slots=True)
class Chunk:
    """Records of one partition in offset order, one list per column, all of one length.

    ``timestamps_ms`` since the epoch, -1 where the record has none. ``headers`` is None for a record without;
    names may repeat and values may be None. ``value_bytes`` counts the values alone.
    """

    partition: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    value_bytes: int = 0

    def take(self, indices: Sequence[int]) -> Chunk:
        """A chunk of the records at these positions, in this order."""
        values = [self.values[i] for i in indices]
        return Chunk(
            self.partition,
            [self.offsets[i] for i in indices],
            [self.timestamps_ms[i] for i in indices],
            [self.keys[i] for i in indices],
            values,
            [self.headers[i] for i in indices],
            sum(map(len, filter(None, values))),
        )

    def extend(self, messages: list[Message], offsets: list[int], value_bytes: int) -> None:
        """Append messages, whose offsets and sum of value lengths the caller has at hand."""
        self.offsets += offsets
        self.timestamps_ms += [timestamp for _, timestamp in map(Message.timestamp, messages)]
        self.keys += map(Message.key, messages)
        self.values += map(Message.value, messages)
        self.headers += map(_headers, messages)
        self.value_bytes += value_bytes


class ChunkBuilder:
    """Cuts one partition's messages into chunks within both bounds (a larger message is a chunk alone)."""

    def __init__(self, partition: int, *, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._bytes_per_record = max(1, max_bytes // FIRST_SLICE_RECORDS)
        self._chunk = Chunk(partition)

    @property
    def room(self) -> int:
        """How many messages to ask for next, judged by the size of the last ones."""
        by_bytes = (self._max_bytes - self._chunk.value_bytes) // self._bytes_per_record
        return max(1, min(self._max_records - len(self._chunk.offsets), by_bytes, MAX_SLICE_RECORDS))

    def add(self, messages: list[Message], offsets: list[int]) -> Iterator[Chunk]:
        """Take messages in; give back the chunks they fill."""
        total = sum(map(len, messages))
        self._bytes_per_record = max(1, total // len(messages))
        if self._fits(len(messages), total):
            self._chunk.extend(messages, offsets, total)
        else:
            for message, offset in zip(messages, offsets, strict=True):
                if not self._fits(1, len(message)):
                    yield from self.finish()
                self._chunk.extend([message], [offset], len(message))
        if self._chunk.value_bytes >= self._max_bytes or len(self._chunk.offsets) >= self._max_records:
            yield from self.finish()

    def finish(self) -> Iterator[Chunk]:
        """Give back what is left, if anything is."""
        if self._chunk.offsets:
            full, self._chunk = self._chunk, Chunk(self._chunk.partition)
            yield full

    def _fits(self, records: int, value_bytes: int) -> bool:
        return (
            self._chunk.value_bytes + value_bytes <= self._max_bytes
            and len(self._chunk.offsets) + records <= self._max_records
        )
