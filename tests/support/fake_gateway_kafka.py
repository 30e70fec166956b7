"""A Kafka for one slot of a gateway that fails as it is told to, and keeps what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.topics import EVENT, EVENT_ID, SOURCE, Ids, Outgoing, Stand
from gateway.writer import RecordRefusedError
from spark_jobs.protocol.errors import CommitConflict, RetryableError


@dataclass
class FakeKafka:
    """What is committed; each write meets the next of ``failures``."""

    failures: list[str] = field(default_factory=list)
    records: list[Outgoing] = field(default_factory=list)
    stands: dict[str, Stand] = field(default_factory=dict)
    is_open: bool = False
    is_away: bool = False
    reads: int = 0

    def open(self) -> tuple[dict[str, Stand], Ids]:
        """Take the slot, or not."""
        if self.is_away or (self.failures and self.failures[0] == "open" and self.failures.pop(0)):
            raise RetryableError("away", code="broker-away", hint="")
        self.is_open = True
        return dict(self.stands), Ids()

    def read_stands(self) -> dict[str, Stand]:
        """Read how far all sources are."""
        self.reads += 1
        if self.is_away:
            raise RetryableError("away", code="broker-away", hint="")
        return dict(self.stands)

    def write(self, records: Iterable[Outgoing], stands: Mapping[str, Stand]) -> None:
        """Commit, or fail before it or after it."""
        failure = "before" if self.is_away else self.failures.pop(0) if self.failures else ""
        if failure == "fenced":
            raise CommitConflict("another", code="gateway-fenced", hint="")
        if failure == "refused" and any(each.value == b"poison" for each in records):
            raise RecordRefusedError("too large")
        if failure not in {"before", "open"}:
            self.records += records
            self.stands |= stands
        if failure in {"before", "after", "open"}:
            self.is_open = False
            raise RetryableError("no answer", code="broker-away", hint="")

    def close(self) -> None:
        """Leave the slot."""
        self.is_open = False

    def ids(self, source: str) -> list[str]:
        """The ids of a source's events, in the order they are in."""
        told = [dict(each.headers) for each in self.records]
        assert [int(each[EVENT] or b"") for each in told if each[SOURCE] == source.encode()] == [
            *range(1, 1 + sum(each[SOURCE] == source.encode() for each in told))
        ]
        return [(each[EVENT_ID] or b"").decode() for each in told if each[SOURCE] == source.encode()]
