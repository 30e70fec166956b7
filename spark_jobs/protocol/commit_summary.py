"""Snapshot summaries: the keys that a commit writes, and reading them back. Pure.

Its words never change: older and newer versions read each other's. A summary goes when its snapshot expires;
what must stay is a table property, see ``progress``. The transaction log keeps the part of a batch's summary
that is known before the commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.protocol.batch import TERMS, Balance, Batch
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.offsets import OffsetRanges, SchemaKey
from spark_jobs.protocol.progress import PREFIX, PROPERTY_ANCHOR, Progress
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.protocol.work import Work, work_of
from spark_jobs.protocol.works.drain import DRAIN

_ATTEMPT = "sluice.attempt"
_KIND = "sluice.kind"
_BATCH_ID = "sluice.batch-id"
_START_OFFSETS = "sluice.start-offsets"
_END_OFFSETS = "sluice.end-offsets"
_GENERATION = "sluice.generation"
_NEXT_OFFSETS = "sluice.next-offsets"
_PROPERTIES_DIGEST = "sluice.properties-digest"
_BALANCE = "sluice.balance"
_BALANCE_TERMS = "sluice.balance-terms"
_PHASES = "sluice.dead-letter-phases"
_REASONS = "sluice.filtered-reasons"
_ROUTED = "sluice.routed-tables"
_UNLISTED = "sluice.unlisted-values"
_RECORDS = "sluice.records"
_BYTES_READ = "sluice.bytes-read"
_VALID_THROUGH = "sluice.valid-through"
_KAFKA = "sluice.kafka"
_IGNORED_FIELDS = "sluice.ignored-fields"
_NATIVE_LEFT = "sluice.native-left"
_SCHEMAS = "sluice.schemas"
_GATE = "sluice.gate"
_GATE_HELD, _GATE_PASSED = "held", "passed"
_ACTOR = "sluice.actor"
_RUN_ID = "sluice.run-id"
_VERSION = "sluice.version"
_REASON = "sluice.reason"
_LETTERS = "sluice.letters"
_CDC = "sluice.cdc"
_ADOPTED_BY = "sluice.adopted-by"
_PUBLISHED_BY = "sluice.published-by"


def attempt_summary(attempt: str) -> dict[str, str]:
    """Return the summary of the commit's attempt."""
    return {_ATTEMPT: attempt}


def offsets_summary(attempt: str, ranges: OffsetRanges) -> dict[str, str]:
    """Return the summary of the attempt and the offsets [start, end) it commits, by partition."""
    return {
        **attempt_summary(attempt),
        _START_OFFSETS: _by_partition(ranges.starts),
        _END_OFFSETS: _by_partition(ranges.ends),
    }


def batch_summary(batch: Batch) -> dict[str, str]:
    """Return the summary that every commit of a batch has."""
    words = {
        _KIND: batch.kind.name,
        _BATCH_ID: batch.batch_id,
        **offsets_summary(batch.attempt, batch.ranges),
    }
    return words | {_LETTERS: batch.letters.name} if batch.letters else words


def progress_summary(progress: Progress, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the table's offsets after the commit, and the digest of its ``properties``."""
    words = {
        _GENERATION: str(progress.generation),
        _NEXT_OFFSETS: _by_partition(progress.next_offsets),
        _PROPERTIES_DIGEST: digest(properties),
    }
    return words if progress.cdc is None else words | {_CDC: _CDCS.to_json(progress.cdc)}


def digest(properties: Mapping[str, str]) -> str:
    """Return a digest of the ``sluice.*`` properties, which reveals a property set by hand later.

    The first 16 hex digits of their SHA-256, whatever the spacing of JSON in them. The anchor is left out: it
    is the id of the very snapshot whose summary keeps the digest.
    """
    kept = {n: _plain_text(v) for n, v in properties.items() if n.startswith(PREFIX) and n != PROPERTY_ANCHOR}
    return hashlib.sha256(_compact(kept).encode()).hexdigest()[:16]


def actor_summary(
    actor: str, run_id: str, *, version: str | None = None, reason: str | None = None
) -> dict[str, str]:
    """Return the actor, run, version of Sluice and reason of a commit."""
    words = {_ACTOR: actor, _RUN_ID: run_id, _VERSION: version, _REASON: reason}
    return {name: word for name, word in words.items() if word is not None}


def counts_summary(
    batch: Batch,
    balances: Mapping[int, Balance],
    *,
    bytes_read: int,
    kafka: Mapping[str, int],
    ignored: Mapping[str, int] | None = None,
    phases: Mapping[str, int] | None = None,
    reasons: Mapping[str, int] | None = None,
    routed: Mapping[str, int] | None = None,
    unlisted: Mapping[str, int] | None = None,
    native_left: Mapping[str, int] | None = None,
    valid_through_ms: int | None,
) -> dict[str, str]:
    """Return counts of the batch's offsets by outcome and partition, and the consumers' counts.

    ``ignored`` are values without a column by the name of their field, ``phases`` dead letters by theirs,
    ``reasons`` records that a filter left out, ``routed`` rows by the table they go to, ``unlisted`` those
    that stay for want of a table listed for their value, ``native_left`` values that the WebAssembly module
    left to the decoder in Python.
    """
    four = {p: [balance[term] for term in TERMS] for p, balance in sorted(balances.items())}
    further = {p: balance.further for p, balance in sorted(balances.items()) if balance.further}
    summary = {
        _BALANCE: json.dumps(four, separators=(",", ":")),
        **({_BALANCE_TERMS: json.dumps(further, separators=(",", ":"))} if further else {}),
        **({_PHASES: json.dumps(phases, separators=(",", ":"), sort_keys=True)} if phases else {}),
        **({_REASONS: json.dumps(reasons, separators=(",", ":"), sort_keys=True)} if reasons else {}),
        **({_ROUTED: _compact(routed)} if routed else {}),
        **({_UNLISTED: _compact(unlisted)} if unlisted else {}),
        _RECORDS: str(batch.records),
        _BYTES_READ: str(bytes_read),
        _KAFKA: json.dumps(kafka, separators=(",", ":")),
        **({_IGNORED_FIELDS: json.dumps(ignored, separators=(",", ":"))} if ignored else {}),
        **({_NATIVE_LEFT: _compact(native_left)} if native_left else {}),
    }
    return summary if valid_through_ms is None else summary | {_VALID_THROUGH: str(valid_through_ms)}


def schemas_summary(schemas: Mapping[SchemaKey, str]) -> dict[str, str]:
    """Return the schemas, with digests, by which values were read and that the table does not have yet.

    Whoever commits the files later learns it from here: it must know them as well as who wrote them.
    """
    return {_SCHEMAS: _DIGESTS.to_json(dict(schemas))} if schemas else {}


def gate_summary(*, is_held: bool) -> dict[str, str]:
    """Return the batch's results at its quality gates.

    It is one object of the log with the files or nothing: nobody can see the files of a held batch without
    seeing that they must not be committed.
    """
    return {_GATE: _GATE_HELD if is_held else _GATE_PASSED}


def adoption_summary(run_id: str) -> dict[str, str]:
    """Return the run that commits the files of another run."""
    return {_ADOPTED_BY: run_id}


def publication_summary(actor: str, reason: str) -> dict[str, str]:
    """Return the actor and reason of publishing a held batch."""
    return {_PUBLISHED_BY: actor, _REASON: reason}


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """A summary read back; missing entries are None, 0 or empty, as documented for each property."""

    words: Mapping[str, str]

    @property
    def is_of_sluice(self) -> bool:
        """True if Sluice wrote the commit."""
        return any(name.startswith(PREFIX) for name in self.words)

    @property
    def attempt(self) -> str | None:
        """Uuid of the commit's attempt."""
        return self.words.get(_ATTEMPT)

    @property
    def kind(self) -> str | None:
        """Name of the commit's work: one of ``WORKS``, or one that only a newer version knows."""
        return self.words.get(_KIND)

    @property
    def work(self) -> Work:
        """The commit's work; early versions, which only drained, wrote no name."""
        return work_of(self.kind or DRAIN.name)

    @property
    def batch_id(self) -> str:
        """The batch's deterministic name."""
        return self.words.get(_BATCH_ID, "")

    @property
    def letters(self) -> str | None:
        """Name of the file with the dead letters of a redrive."""
        return self.words.get(_LETTERS)

    @property
    def start_offsets(self) -> dict[int, int]:
        """First offsets of the commit, by partition."""
        return _offsets(self.words.get(_START_OFFSETS, "{}"))

    @property
    def ranges(self) -> OffsetRanges:
        """Offsets of the commit; empty for a commit without offsets."""
        return OffsetRanges.between(self.start_offsets, _offsets(self.words.get(_END_OFFSETS, "{}")))

    @property
    def drained(self) -> dict[int, int]:
        """First offsets of a drain, by partition; empty for other commits."""
        return self.work.new(self.start_offsets) or {}

    @property
    def has_progress(self) -> bool:
        """True if the summary has ``generation`` and ``next_offsets``."""
        return _NEXT_OFFSETS in self.words

    @property
    def generation(self) -> int:
        """The topic's generation in the table after the commit."""
        return int(self.words.get(_GENERATION, 0))

    @property
    def next_offsets(self) -> dict[int, int]:
        """The table's next offsets after the commit, by partition."""
        return _offsets(self.words.get(_NEXT_OFFSETS, "{}"))

    @property
    def cdc(self) -> Cdc | None:
        """A mirror's position in its source's log after the commit."""
        return _CDCS.from_json(self.words[_CDC]) if _CDC in self.words else None

    @property
    def properties_digest(self) -> str | None:
        """Digest of the properties after the commit; None if an early version wrote it."""
        return self.words.get(_PROPERTIES_DIGEST)

    @property
    def balances(self) -> tuple[Balance, ...] | None:
        """Counts of offsets by outcome and partition; None for a commit that drains nothing."""
        if (text := self.words.get(_BALANCE)) is None:
            return None
        further = json.loads(self.words.get(_BALANCE_TERMS, "{}"))
        balances = tuple(
            Balance(zip(TERMS, four, strict=True), **further.get(partition, {}))
            for partition, four in json.loads(text).items()
        )
        return self.work.new(balances)

    @property
    def dead_letter_phases(self) -> dict[str, int]:
        """Dead letters by failed phase; empty if an early version wrote the commit."""
        return _COUNTS.from_json(self.words.get(_PHASES, "{}"))

    @property
    def filtered_reasons(self) -> dict[str, int]:
        """Records that a filter left out, by reason."""
        return _COUNTS.from_json(self.words.get(_REASONS, "{}"))

    @property
    def routed_tables(self) -> dict[str, int]:
        """Rows by the table to which they are routed."""
        return _COUNTS.from_json(self.words.get(_ROUTED, "{}"))

    @property
    def unlisted_values(self) -> dict[str, int]:
        """Rows that stay because no table is listed for their value, by value."""
        return _COUNTS.from_json(self.words.get(_UNLISTED, "{}"))

    @property
    def native_left(self) -> dict[str, int]:
        """Values that the WebAssembly module left to the decoder in Python, by reason."""
        return _COUNTS.from_json(self.words.get(_NATIVE_LEFT, "{}"))

    @property
    def records(self) -> int:
        """Number of offsets in the commit."""
        return self.count(_RECORDS)

    @property
    def bytes_read(self) -> int:
        """Bytes of Kafka keys and values in the commit."""
        return self.count(_BYTES_READ)

    @property
    def valid_through_ms(self) -> int | None:
        """Record time up to which the table is complete after the commit, in milliseconds since the epoch."""
        return self.count(_VALID_THROUGH) if _VALID_THROUGH in self.words else None

    @property
    def kafka(self) -> dict[str, int]:
        """The consumers' counts of the tasks, by name; empty if unreadable."""
        try:
            return {name: int(number) for name, number in json.loads(self.words.get(_KAFKA, "{}")).items()}
        except (ValueError, AttributeError, TypeError):
            return {}

    @property
    def schemas(self) -> dict[SchemaKey, str]:
        """Digests of schemas that are new to the table; empty if there are none."""
        return _DIGESTS.from_json(self.words.get(_SCHEMAS, "{}"))

    @property
    def is_held(self) -> bool:
        """True if the batch failed a quality gate."""
        return self.words.get(_GATE) == _GATE_HELD

    def count(self, name: str) -> int:
        """Return a count of the summary, for example Iceberg's own ``added-records``."""
        return int(self.words.get(name, 0))

    @property
    def live_rows(self) -> int:
        """Rows that readers see, by Iceberg's totals: rows in files, less deleted ones."""
        return max(0, self.count("total-records") - self.count("total-position-deletes"))


_DIGESTS = JsonCodec(dict[SchemaKey, str])
_COUNTS = JsonCodec(dict[str, int])
_CDCS = JsonCodec(Cdc)


def _by_partition(offsets: Mapping[int, int]) -> str:
    return json.dumps(offsets, sort_keys=True)


def _offsets(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}


def _plain_text(value: str) -> str:
    try:
        return _compact(json.loads(value))
    except ValueError:
        return value


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)
