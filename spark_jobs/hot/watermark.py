"""A watermark: the records of an answer, by their offsets. Pure.

An answer has every readable record of each partition below an end, and none at or past it. Within one epoch,
which is a generation and a number of rollbacks, offsets always mean the same records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.protocol.errors import fault

# Enough digits for Kafka's and the table's numbers, and few enough to parse quickly.
_TEXT = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})/(.*)")
_PAIR = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Epoch:
    """The identity within which offsets mean the same records."""

    table_uuid: str
    topic_id: str
    generation: int
    rollbacks: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """Ends (exclusive) by partition, in an epoch of the table; its text is ``1.0/0:1234,1:88``."""

    generation: int
    rollbacks: int
    ends: Mapping[int, int]

    def __str__(self) -> str:
        ends = ",".join(f"{partition}:{end}" for partition, end in sorted(self.ends.items()))
        return f"{self.generation}.{self.rollbacks}/{ends}"

    def is_of(self, other: Epoch | Watermark) -> bool:
        """True if the watermark is of the epoch: only then can their offsets be compared."""
        return (self.generation, self.rollbacks) == (other.generation, other.rollbacks)

    def reaches(self, ends: Mapping[int, int]) -> bool:
        """True if this watermark is at or past all of these ends."""
        return all(self.ends.get(partition, 0) >= end for partition, end in ends.items())


def parse_watermark(text: str) -> Watermark:
    """Read a watermark's text. Raises ``ConfigError`` (``unreadable-watermark``)."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise fault("unreadable-watermark", text=text)
    return Watermark(int(found[1]), int(found[2]), parse_offsets(found[3]))


def parse_offsets(text: str) -> dict[int, int]:
    """Read offsets by partition, ``0:1234,1:88``. Raises ``ConfigError`` (``unreadable-watermark``)."""
    pairs = [_PAIR.fullmatch(pair) for pair in text.split(",") if text]
    if not all(pairs):
        raise fault("unreadable-watermark", text=text)
    return {int(pair[1]): int(pair[2]) for pair in pairs if pair}
