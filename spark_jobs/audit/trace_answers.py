"""Outcomes of a record, and facts about one without a row or dead letter. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.protocol.batch import Balance, shown_term
from spark_jobs.protocol.texts import count

# What a filter is of a record that it leaves out, by the reason that it is counted under.
FILTERED_AS = {"missing": "null", "excluded": "false"}


class Where(StrEnum):
    """Outcome of an offset."""

    ROW = "row"
    DEAD_LETTER = "dead letter"
    TOMBSTONE = "tombstone"
    FILTERED = "filtered"
    FOLDED = "folded"
    PASSED = "passed over"
    GAP = "gap"
    EMPTY = "tombstone or gap"
    SKIPPED = "skipped"
    REMOVED = "removed"
    MISSING = "missing"
    UNKNOWN = "unknown"
    WAITING = "not yet drained"
    HELD = "held"
    NOT_WRITTEN = "not in Kafka yet"
    GONE = "deleted before it was drained"
    BEFORE_START = "before the start"


class KafkaSays(StrEnum):
    """Result of reading the offset again."""

    RECORD = "a record"
    TOMBSTONE = "a tombstone"
    NOTHING = "no record"
    NOT_HELD = "no longer in Kafka"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Outcome of an offset, and a sentence with the reason."""

    where: Where
    why: str


def judge_rowless(
    kafka: KafkaSays, booked: Balance | None, there: int, left_out: str | None = None
) -> Judgement:
    """Return the outcome of a drained offset that now has no row or dead letter.

    ``booked`` is the balance of its partition in the batch that drained it, None when nobody knows that
    batch; ``there`` is how many rows and dead letters of the same range are in the tables now. ``left_out``
    is why the pipeline's filter has none of the record that Kafka holds, or of which kind one is that says
    nothing of a row.
    """
    if left_out is not None:
        return _left_out(left_out)
    removed = 0 if booked is None else booked.kept - there
    if kafka is KafkaSays.TOMBSTONE:
        return Judgement(Where.TOMBSTONE, "Kafka still holds it: a record without a value")
    if kafka is KafkaSays.RECORD:
        if removed > 0:
            return Judgement(Where.REMOVED, _counted(removed) + ", and Kafka still holds this one")
        return Judgement(
            Where.MISSING, "Kafka holds a record with a value, and its batch does not lack a row"
        )
    if booked is None:
        return Judgement(Where.UNKNOWN, "neither the batch history nor the log contains its batch")
    return _judge_by_balance(kafka, booked, removed)


def judge_folded(kafka: KafkaSays, booked: Balance | None, passed: str | None = None) -> Judgement:
    """Return the outcome of a mirror's drained offset that now has no row or dead letter.

    ``passed`` is of which kind a record is that says nothing of a row.
    """
    if passed is not None:
        return _left_out(passed)
    counted = "" if booked is None else f"; in the partition its batch counted {_terms(booked)}"
    if kafka is KafkaSays.TOMBSTONE:
        return Judgement(Where.TOMBSTONE, "Kafka still holds it: a record without a value")
    if kafka is KafkaSays.NOTHING:
        return Judgement(Where.GAP, f"Kafka has no readable record there{counted}")
    why = "a mirror has the newest change of each key, and none of a key that was deleted: trace its key"
    return Judgement(Where.FOLDED, why + counted)


def _left_out(why: str) -> Judgement:
    if why not in FILTERED_AS:
        return Judgement(Where.PASSED, f"no row: {shown_term(why)} are counted and skipped")
    told = f"the current filter is {FILTERED_AS[why]} for the record ({why})"
    return Judgement(Where.FILTERED, told)


def _terms(balance: Balance) -> str:
    return ", ".join(f"{offsets} {shown_term(term)}" for term, offsets in balance.items() if offsets)


def _judge_by_balance(kafka: KafkaSays, booked: Balance, removed: int) -> Judgement:
    others = "".join(f", {offsets} {shown_term(term)}" for term, offsets in booked.further.items())
    tombstones, gaps = count(booked.tombstones, "tombstone"), count(booked.gaps, "gap")
    counted = f"its batch counted {tombstones} and {gaps}{others} in the partition"
    if kafka is KafkaSays.NOTHING and booked.gaps:
        return Judgement(Where.GAP, f"Kafka has no readable record there, and {counted}")
    rowless = booked.offsets - booked.kept
    if removed > 0 and rowless == 0:
        return Judgement(Where.REMOVED, f"{_counted(removed)}, and {counted}")
    if removed > 0:
        return Judgement(
            Where.UNKNOWN, f"it was removed or was never a row: {_counted(removed)}, but {counted}"
        )
    alone = {booked.get("filtered", 0): Where.FILTERED}
    alone |= {booked.tombstones: Where.TOMBSTONE, booked.gaps: Where.GAP}
    where = alone.get(rowless, Where.EMPTY) if rowless else Where.MISSING
    return Judgement(where, f"no row or dead letter of its batch is missing, and {counted}")


def _counted(removed: int) -> str:
    return f"{removed} of the rows and dead letters of its batch are no longer in the tables"
