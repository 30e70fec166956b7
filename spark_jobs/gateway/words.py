"""The words of the protocol: what is answered to a batch, and why one is turned away."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from zlib import crc32

from spark_jobs.config.gateway import SLOTS

# Of the second a status and a pong say what Kafka has beside what was accepted.
VERSIONS = (1, 2)


class State(StrEnum):
    """What a gateway does; of several the last that holds."""

    READY = "ready"
    BUSY = "busy"
    DRAINING = "draining"
    SPOOLING = "spooling"


class Status(StrEnum):
    """What became of a batch."""

    OK = "ok"
    BUFFERED = "buffered"
    PERSISTED = "persisted"
    DUPLICATE = "duplicate"
    FALLBACK = "fallback"


class Reason(StrEnum):
    """Why a batch was not taken."""

    BUFFER_FULL = "buffer_full"
    RATE_LIMITED = "rate_limited"
    INVALID_SEQUENCE = "invalid_sequence"
    INVALID_FORMAT = "invalid_format"
    INTERNAL_ERROR = "internal_error"
    SHUTTING_DOWN = "shutting_down"
    FENCED = "fenced"


_AGAIN_MS = {
    Reason.BUFFER_FULL: 1000,
    Reason.RATE_LIMITED: 1000,
    Reason.INTERNAL_ERROR: 2000,
    Reason.SHUTTING_DOWN: 1000,
}


@dataclass(frozen=True, slots=True)
class Ack:
    """A batch is where ``status`` says."""

    sequence: int
    status: Status
    processed: int = 0
    skipped: int = 0

    def to_json(self, batch_id: str | None = None) -> dict[str, Any]:
        """Return it as it is sent."""
        told = {
            "type": "ack",
            "status": self.status,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "eventsProcessed": self.processed,
            "duplicatesSkipped": self.skipped,
        }
        return _known(told)


@dataclass(frozen=True, slots=True)
class Nack:
    """A batch is nowhere; ``expected`` is the sequence that would be taken, ``field`` what is wrong.

    ``gateway`` is where the source belongs, if that is known.
    """

    reason: Reason
    message: str
    sequence: int | None = None
    retry_after_ms: int | None = None
    expected: int | None = None
    field: str | None = None
    gateway: str | None = None

    @property
    def should_retry(self) -> bool:
        """True if the same batch may be taken later, or elsewhere."""
        return self.reason in _AGAIN_MS or self.gateway is not None

    @property
    def is_taken(self) -> bool:
        """True if its number is another batch's."""
        return self.expected is not None and self.sequence is not None and self.expected > self.sequence

    def to_json(self, batch_id: str | None = None) -> dict[str, Any]:
        """Return it as it is sent."""
        details = {
            "message": self.message,
            "retryAfterMs": self.again_ms,
            "expected": self.expected,
            "field": self.field,
            "gateway": self.gateway,
        }
        told = {
            "type": "nack",
            "reason": self.reason,
            "shouldRetry": self.should_retry,
            "sequenceNumber": self.sequence,
            "batchId": batch_id,
            "details": _known(details),
        }
        return _known(told)

    @property
    def again_ms(self) -> int | None:
        """Return when to try again, None where that helps nothing."""
        return self.retry_after_ms or _AGAIN_MS.get(self.reason)


Answer = Ack | Nack


def _known(words: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in words.items() if value is not None}


def slot_of(source: str) -> int:
    """Return the slot of a source: the same in every version, since states lie by it."""
    return crc32(source.encode()) % SLOTS
