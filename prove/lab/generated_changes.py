"""A random source database: one table, its log, and a connector's topic, by seed.

What it has after all changes is kept in a dictionary, by no rule of a fold. Its connector is killed and tells
its last changes again, tells a transaction only once it is committed, and leaves long values out.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from zlib import crc32

from prove.lab.kafka_server import Record

UNAVAILABLE = "__debezium_unavailable_value"
OF = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "customers"}


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """An event; ``key`` is None for a truncate, ``note`` is the long value, None without a row."""

    operation: str
    key: int | None
    sequence: int
    commit: int | None
    time_ms: int
    score: int | None = 0
    note: str | None = None
    old_key: int | None = None

    def record(self, partitions: int) -> Record:
        """Return it as Debezium writes it without schemas."""
        row = {"id": self.key, "score": self.score, "note": self.note}
        source = {
            **OF,
            "sequence": json.dumps([str(self.commit), str(self.sequence)]),
            "lsn": self.sequence,
            "ts_ms": self.time_ms,
            "txId": self.commit,
        }
        value = {
            "before": {"id": self.key} if self.operation == "d" else None,
            "after": row if self.operation in "cur" else None,
            "source": source,
            "op": self.operation,
        }
        headers = () if self.old_key is None else (("__debezium.oldkey", _key(self.old_key)),)
        key = None if self.key is None else _key(self.key)
        return Record(
            json.dumps(value).encode(), key=key, partition=self.partition(partitions), headers=headers
        )

    def partition(self, partitions: int) -> int:
        """Return its partition: by its key, the first one for a truncate."""
        return 0 if self.key is None else crc32(_key(self.key)) % partitions


@dataclass(slots=True)
class RandomSource:
    """A randomly changed table; ``rows`` are current scores and long values by key."""

    seed: int
    keys: int = 12
    rows: dict[int, tuple[int, str]] = field(default_factory=dict)
    _told: list[SourceEvent] = field(default_factory=list)
    _lsn: int = 1000
    _time_ms: int = 1_700_000_000_000
    _committed: int = 900
    _random: random.Random = field(default_factory=random.Random, repr=False)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def restored(self, backup: RandomSource) -> None:
        """Restore a backup: the log continues from it, the clock goes on."""
        self.rows, self._lsn, self._committed = dict(backup.rows), backup._lsn, backup._committed
        self._told = []
        self._time_ms += 1_000

    def backup(self) -> RandomSource:
        """Return the current database."""
        return copy.deepcopy(self)

    def snapshot(self) -> Iterator[SourceEvent]:
        """Yield all rows as events of a new snapshot."""
        yield from self._commit([self._event("r", key) for key in sorted(self.rows)])

    def changes(self, transactions: int) -> Iterator[SourceEvent]:
        """Yield the events of this many transactions, with some repetitions."""
        for _ in range(transactions):
            if self._random.random() < 0.12 and self._told:
                # Killed: it goes on from a transaction that it had told.
                commits = sorted({each.commit or 0 for each in self._told[-12:]})
                again = self._random.choice(commits)
                yield from [each for each in self._told if (each.commit or 0) >= again]
            first = self._transaction()
            if self._random.random() < 0.2 and first[0].operation in "cud":
                # Another one, begun later, is committed before it: their positions overlap.
                touched = {key for each in first for key in (each.key, each.old_key)}
                yield from self._commit(self._change(touched))
            yield from self._commit(first)

    def _commit(self, events: list[SourceEvent]) -> list[SourceEvent]:
        """Return a transaction's events in the order of its commit."""
        told = [replace(each, commit=self._committed) for each in events]
        self._told += told
        self._committed = self._next_lsn()
        return told

    def _transaction(self) -> list[SourceEvent]:
        self._time_ms += self._random.randrange(1, 50)
        if self._random.random() < 0.06:
            self.rows.clear()
            return [SourceEvent("t", None, self._next_lsn(), 0, self._time_ms)]
        if self._random.random() < 0.05 and self.rows:
            return [self._event("r", key) for key in sorted(self.rows)[:3]]
        return [event for _ in range(self._random.randrange(1, 5)) for event in self._change()]

    def _change(self, untouched: Collection[int | None] = ()) -> list[SourceEvent]:
        key = self._random.choice([each for each in range(self.keys) if each not in untouched])
        if key not in self.rows:
            self.rows[key] = (self._random.randrange(99), f"note {self._next_lsn()}")
            return [self._event("c", key)]
        chance = self._random.random()
        if chance < 0.2:
            del self.rows[key]
            return [SourceEvent("d", key, self._next_lsn(), 0, self._time_ms)]
        score, note = self._random.randrange(99), self.rows[key][1]
        new = self._random.randrange(self.keys, 2 * self.keys)
        if chance < 0.4 and new not in {*self.rows, *untouched}:
            self.rows[new] = (score, note)
            del self.rows[key]
            lsn = self._next_lsn()
            gone = SourceEvent("d", key, lsn, 0, self._time_ms)
            return [gone, SourceEvent("c", new, lsn, 0, self._time_ms, score, UNAVAILABLE, key)]
        if chance < 0.7:
            self.rows[key] = (score, note)
            return [replace(self._event("u", key), note=UNAVAILABLE)]
        self.rows[key] = (score, f"note {self._next_lsn()}")
        return [self._event("u", key)]

    def _event(self, operation: str, key: int) -> SourceEvent:
        score, note = self.rows[key]
        return SourceEvent(operation, key, self._next_lsn(), 0, self._time_ms, score, note)

    def _next_lsn(self) -> int:
        self._lsn += self._random.randrange(1, 9)
        return self._lsn


def _key(key: int) -> bytes:
    return json.dumps({"id": key}, separators=(",", ":")).encode()
