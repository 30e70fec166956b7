"""What decoding and shaping are told of a chunk of records and of where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Records(Protocol):
    """Records of one partition in offset order, one sequence per column, all of one length.

    ``timestamps_ms`` is -1 where a record has none, ``headers`` is None for a record without.
    """

    @property
    def partition(self) -> int:
        """Their Kafka partition."""

    @property
    def offsets(self) -> Sequence[int]:
        """Their Kafka offsets."""

    @property
    def timestamps_ms(self) -> Sequence[int]:
        """Milliseconds since the epoch."""

    @property
    def keys(self) -> Sequence[bytes | None]:
        """Keys as they came."""

    @property
    def values(self) -> Sequence[bytes | None]:
        """Values as they came."""

    @property
    def headers(self) -> Sequence[Sequence[tuple[str, bytes | None]] | None]:
        """Names and values in order; names may repeat."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What all records of a batch share."""

    topic: str
    generation: int
    ingested_at_us: int
