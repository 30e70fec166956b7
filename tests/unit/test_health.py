"""The built-in checks' judgements, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import pytest

from spark_jobs.checks.check import Check, Severity
from spark_jobs.checks.facts import (
    AuditNote,
    DrainedBatch,
    HealthFacts,
    Removal,
    SourceEvents,
    SpoolFacts,
    TableFacts,
)
from spark_jobs.checks.registry import CHECKS
from spark_jobs.config.sections import DeadLetterSettings, RouteSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.suites import CheckSettings
from spark_jobs.health.judge import CheckResult, checks_of, judge
from spark_jobs.monitoring.audit_notes import is_due
from spark_jobs.monitoring.metrics import _gauges
from spark_jobs.protocol.batch import Balance, Pause
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.protocol.work import layout_named

NOW = 1_800_000_000_000
PIPELINE = PipelineConfig(name="orders", topic="orders", table="lake.orders")
BATCH = DrainedBatch("a", NOW - 60_000, 10, Balance(rows=8, dead_letters=0, tombstones=1, gaps=1), 8)
TABLE = TableFacts(valid_through_ms=NOW - 30_000, committed_at_ms=NOW - 30_000, batches=(BATCH,))
WELL = HealthFacts(now_ms=NOW, lag={0: 0, 1: 0}, table=TABLE)


def look(facts: HealthFacts, name: str, pipeline: PipelineConfig = PIPELINE) -> CheckResult:
    """The result of one check."""
    return next(result for result in judge(pipeline, facts) if result.name == name)


def checked(pipeline: PipelineConfig = PIPELINE, **checks: object) -> PipelineConfig:
    """The pipeline with these settings."""
    return pipeline.model_copy(update={"checks": CheckSettings.model_validate(checks)})


def test_all_is_well() -> None:
    """A table that has everything passes every check and asks for nothing to be typed."""
    results = judge(PIPELINE, WELL)
    assert [result.name for result in results] == [check.name for check in CHECKS if not check.only_with]
    assert all(result.passed and not result.mend for result in results)


def test_a_table_that_is_not_there_yet_fails_nothing() -> None:
    """Before the first batch there is nothing to be late with, and the line says so."""
    results = judge(PIPELINE, HealthFacts(now_ms=NOW, lag={0: 5}))
    assert all(result.passed for result in results)
    assert look(HealthFacts(now_ms=NOW, lag={0: 5}), "stall").fact == "no table yet, 5 records wait"


def test_a_pipeline_that_cannot_be_looked_at_fails_every_check_with_the_reason() -> None:
    """No answer is never taken for good news."""
    away = RetryableError("no broker answers", code="no-broker", hint="Start it.")
    for result in judge(PIPELINE, HealthFacts(now_ms=NOW, is_known=False, error=away)):
        assert not result.passed
        assert result.fact == "cannot be judged: no broker answers"
        assert result.mend == "Start it."


def test_freshness_advances_on_an_idle_topic_and_ages_with_a_backlog() -> None:
    """With nothing waiting the table is complete up to now, however long ago the last record came."""
    old = replace(TABLE, valid_through_ms=NOW - 3_600_000, committed_at_ms=NOW - 3_600_000)
    idle = look(replace(WELL, table=old), "fresh")
    late = look(replace(WELL, table=old, lag={0: 1}), "fresh")
    assert idle.passed
    assert idle.numbers["age_seconds"] == 0
    assert not late.passed
    assert late.numbers["age_seconds"] == 3600
    assert "the oldest for 1 h" in late.fact
    assert late.mend == "./sluice drain orders"


WEEK_MS = 7 * 24 * 3_600_000
SILENT = replace(TABLE, valid_through_ms=NOW - WEEK_MS, committed_at_ms=NOW - WEEK_MS)


@pytest.mark.parametrize("name", ["fresh", "lag", "stall"])
def test_what_came_after_silence_is_late_by_its_own_age(name: str) -> None:
    """A topic that was silent for a week is well at its first record, until that one has waited for long."""
    came = replace(WELL, table=SILENT, lag={0: 5}, waiting_since_ms=NOW - 5_000)
    assert look(came, name).passed
    assert look(replace(came, waiting_since_ms=NOW - 400_000), name).passed is (name == "lag")
    future = replace(came, waiting_since_ms=NOW + WEEK_MS)
    assert look(future, name).passed


def test_the_age_is_told_of_the_oldest_record_that_waits() -> None:
    """Its own time counts, yet never one from before what the table has: records may be dated back."""
    came = replace(WELL, table=SILENT, lag={0: 5}, waiting_since_ms=NOW - 5_000)
    fresh, stall = look(came, "fresh"), look(came, "stall")
    assert fresh.fact == "5 records wait, the oldest for 5 s (limit 5 min)"
    assert fresh.numbers["age_seconds"] == stall.numbers["seconds_without_commit"] == 5
    assert stall.fact == "5 records wait, without a commit for 5 s (limit 5 min)"
    assert replace(came, table=TABLE, waiting_since_ms=NOW - WEEK_MS).oldest_since_ms == NOW - 30_000


def test_the_metric_of_freshness_is_the_age_of_the_oldest_record_that_waits() -> None:
    """However long the topic was silent before it; where none waits the table is complete up to now."""
    came = replace(WELL, table=SILENT, lag={0: 5}, waiting_since_ms=NOW - 5_000)
    ages = [_gauges(facts)["sluice_freshness_seconds"] for facts in (came, replace(came, lag={0: 0}))]
    assert ages == [5, 0]


def test_a_backlog_that_is_worked_off_is_behind_and_no_stall() -> None:
    """Old records may wait for hours while batch after batch is committed: `fresh` says so, `stall` not."""
    moving = replace(SILENT, committed_at_ms=NOW - 20_000)
    facts = replace(WELL, table=moving, lag={0: 5}, waiting_since_ms=NOW - WEEK_MS)
    assert (look(facts, "fresh").passed, look(facts, "stall").passed) == (False, True)


def test_limits_follow_the_freshness_asked_for_and_yield_to_configured_ones() -> None:
    """Five times the freshness, at least five minutes, unless a limit says otherwise."""
    facts = replace(WELL, lag={0: 1}, table=replace(TABLE, valid_through_ms=NOW - 400_000))
    slow = PIPELINE.model_copy(update={"freshness_seconds": 100})
    assert not look(facts, "fresh").passed
    assert look(facts, "fresh", slow).passed
    assert not look(facts, "fresh", checked(slow, fresh=60)).passed


# 08:00 UTC on the day of NOW is the tick; NOW is 08:00 itself.
NIGHTLY = PIPELINE.model_copy(update={"schedule": "0 8 * * *"})
HOUR = 3_600_000


def waiting(now: int, since: int, committed: int, through: int) -> HealthFacts:
    """Three million more records than a run takes, the first of them of ``since``."""
    table = replace(TABLE, committed_at_ms=committed, valid_through_ms=through)
    return replace(WELL, now_ms=now, lag={0: 7_000_000}, waiting_since_ms=since, table=table)


@pytest.mark.parametrize("name", ["fresh", "lag", "stall"])
def test_a_schedule_is_judged_by_the_tick_that_should_have_drained(name: str) -> None:
    """What waits for the next tick is not late, however long; then it is, also when ticks are frequent."""
    yesterday = NOW - 23 * HOUR
    for_tonight = waiting(NOW - HOUR, yesterday, yesterday, yesterday)
    missed = waiting(NOW + 2 * HOUR, yesterday, yesterday, yesterday)
    assert look(for_tonight, name, NIGHTLY).passed
    assert not look(missed, name, NIGHTLY).passed
    assert not look(missed, name, NIGHTLY.model_copy(update={"schedule": "*/5 * * * *"})).passed
    assert not look(for_tonight, name).passed


@pytest.mark.parametrize("name", ["fresh", "lag", "stall"])
def test_what_came_after_a_tick_without_work_is_not_late(name: str) -> None:
    """A tick that found nothing commits nothing: the first record's time says that nothing was missed."""
    last_week = NOW - 170 * HOUR
    facts = waiting(NOW + 9 * HOUR, NOW + 5 * HOUR, last_week, last_week)
    assert look(facts, name, NIGHTLY).passed


def test_a_scheduled_drain_that_commits_is_no_stall() -> None:
    """A day's records take a while: meanwhile `fresh` and `lag` leave it an hour."""
    under_way = waiting(NOW + HOUR // 2, NOW - 9 * HOUR, NOW + HOUR // 3, NOW - 9 * HOUR)
    assert all(result.passed for result in judge(NIGHTLY, under_way))


def test_lag_names_the_partition_with_the_most() -> None:
    """Two full batches may wait; beyond that the line says where."""
    facts = replace(WELL, lag={0: 1, 1: 5_000_000})
    assert not look(facts, "lag").passed
    assert "5,000,000 of them in partition 1" in look(facts, "lag").fact
    assert look(facts, "lag", checked(lag=6_000_000)).passed


def test_a_stall_is_a_backlog_without_commits() -> None:
    """Neither an idle topic nor a busy drain is one; a quiet backlog is, and an error a drain meets."""
    quiet = replace(TABLE, valid_through_ms=NOW - 301_000, committed_at_ms=NOW - 301_000)
    assert look(replace(WELL, table=quiet), "stall").passed
    assert look(replace(WELL, lag={0: 1}), "stall").passed
    assert not look(replace(WELL, table=quiet, lag={0: 1}), "stall").passed
    gone = RetryableError("retention passed", code="x", hint="Skip it.")
    assert look(replace(WELL, error=gone), "stall").mend == "Skip it."
    assert "held list" in look(replace(WELL, held=("a",)), "stall").mend
    failed = replace(WELL, lag={0: 1}, failure=gone)
    for facts in (failed, replace(failed, table=None)):
        told = look(facts, "stall")
        assert (told.passed, told.fact, told.mend) == (False, "retention passed", "Skip it.")


def test_an_open_transaction_is_a_stall_once_it_is_old() -> None:
    """Healthy ones come and go; what they hold back waits since the first one began."""
    held = replace(WELL, undecided=3, undecided_since_ms=NOW - 10_000)
    assert look(held, "stall").passed
    assert (
        look(held, "fresh").fact
        == f"{look(held, 'stall').fact.partition(',')[0]}, the oldest for 10 s (limit 5 min)"
    )
    old = replace(WELL, undecided=3, undecided_since_ms=NOW - 301_000)
    assert not look(old, "stall").passed
    assert "kafka-transactions.sh" in look(old, "stall").mend
    assert look(replace(WELL, undecided=3), "stall").fact == "waiting for an open transaction: 3 records"


def test_a_pause_is_no_stall_but_the_table_still_ages() -> None:
    """What a person stopped is told with their reason, and mended by resuming."""
    paused = replace(
        TABLE, paused=Pause("migration", "ann@host", NOW), valid_through_ms=0, committed_at_ms=NOW - 900_000
    )
    failure = RetryableError("the last drain failed: ...", code="x", hint="Mend it.")
    facts = replace(WELL, table=paused, lag={0: 1}, failure=failure)
    assert look(facts, "stall").fact == "paused by ann@host: migration"
    assert look(facts, "stall").passed
    assert look(facts, "fresh").mend.startswith("./sluice resume orders --reason")


def test_headroom_that_nobody_may_know_is_not_told_as_safe() -> None:
    """Without the topic's settings nothing is judged, and the line says what is missing."""
    unknown = look(replace(WELL, lag={0: 1}, is_retention_known=False), "retention_headroom")
    assert unknown.passed
    assert unknown.fact == "unknown: reading the settings of topic orders requires the right DESCRIBE_CONFIGS"
    assert look(replace(WELL, is_retention_known=False), "retention_headroom").fact.startswith("Kafka is not")


def test_headroom_wants_a_day_or_a_quarter_of_what_the_topic_keeps() -> None:
    """A topic that keeps an hour cannot give a day's warning."""
    two_hours = replace(WELL, lag={0: 1}, headroom_ms=2 * 3_600_000, retention_ms=7 * 86_400_000)
    assert not look(two_hours, "retention_headroom").passed
    assert look(replace(two_hours, retention_ms=3 * 3_600_000), "retention_headroom").passed
    now = look(replace(two_hours, headroom_ms=0), "retention_headroom")
    assert now.fact.startswith("Kafka may delete the next record now")
    assert "retention.ms of topic orders" in now.mend


def test_dead_letters_are_judged_by_their_share_of_a_day() -> None:
    """Older batches do not count; the breaker's share is the limit where there is one, 0 included."""
    bad = DrainedBatch("b", NOW - 1000, 100, Balance(rows=98, dead_letters=2), 98)
    old = DrainedBatch("c", NOW - 2 * 86_400_000, 100, Balance(rows=0, dead_letters=100), 0)
    facts = replace(WELL, table=replace(TABLE, batches=(old, bad)))
    assert look(facts, "dead_letters").numbers == {"dead_letters": 2, "records": 100, "share": 0.02}
    assert not look(facts, "dead_letters").passed
    lenient = PIPELINE.model_copy(update={"dead_letters": DeadLetterSettings(stop_above=0.05)})
    assert look(facts, "dead_letters", lenient).passed
    one = replace(
        WELL, table=replace(TABLE, batches=(replace(bad, balance=Balance(rows=9999, dead_letters=1)),))
    )
    assert look(one, "dead_letters").passed
    assert not look(one, "dead_letters", checked(dead_letters=0.0)).passed


def test_records_under_any_name_count_in_the_share_of_dead_letters() -> None:
    """A term of the balance that nobody knew makes the day's records more, so the share smaller."""
    filtered = DrainedBatch("d", NOW - 1000, 400, Balance(rows=98, dead_letters=2, filtered=300), 98)
    facts = replace(WELL, table=replace(TABLE, batches=(filtered,)))
    assert look(facts, "dead_letters").numbers == {"dead_letters": 2, "records": 400, "share": 0.005}


def test_values_without_a_table_come_with_the_line_that_lists_them() -> None:
    """Of a day's batches, keys quoted where YAML would read something else; only where anything is routed."""
    batch = replace(BATCH, unlisted_values={"gift": 3, "no": 1})
    routing = PIPELINE.model_copy(update={"route": RouteSettings(by="kind", tables={"a": "lake.a"})})
    told = look(replace(WELL, table=replace(TABLE, batches=(batch, batch))), "routes", routing)
    assert not told.passed
    assert told.numbers == {"unlisted_rows": 8}
    assert told.mend.endswith(f'another: gift: {PIPELINE.table}, "no": {PIPELINE.table}')
    assert look(WELL, "routes", routing).passed
    assert "routes" not in {check.name for check in checks_of(PIPELINE)}


def test_complete_tells_unaccounted_offsets_holes_and_what_the_audit_found() -> None:
    """Any of the three fails it; rows that another writer removed are told apart and do not."""
    short = replace(BATCH, added_rows=7)
    assert look(replace(WELL, table=replace(TABLE, batches=(short,))), "complete").numbers["unaccounted"] == 1
    hole = replace(TABLE, holes=("snapshot 7 begins at 0:9, 0:8 was reached",))
    assert "0:9" in look(replace(WELL, table=hole), "complete").fact
    removed = replace(TABLE, removals=(Removal(9, "delete", NOW, 3),))
    told = look(replace(WELL, table=removed, audit=AuditNote(NOW, 100, 0, 0, 0, 3)), "complete")
    assert told.passed
    assert "another writer removed 3 rows (delete, snapshot 9)" in told.fact
    missing = look(replace(WELL, audit=AuditNote(NOW - 60_000, 100, 1, 0, 0, 0)), "complete")
    assert not missing.passed
    assert "newest 100 offsets 1 min ago: 1 missing" in missing.fact
    empty = AuditNote(NOW - 60_000, 0, 0, 0, 0, 0)
    assert "found no drained record yet" in look(replace(WELL, audit=empty), "complete").fact
    assert is_due(empty, NOW), "not for an hour, in which records come"
    gone = AuditNote(NOW - 60_000, 0, 0, 0, 0, 0, damaged=("the file is gone: a.parquet",), mends=("do",))
    damaged = look(replace(WELL, audit=gone), "complete")
    assert (damaged.passed, damaged.mend) == (False, "do")
    assert "1 file damaged, as found 1 min ago: the file is gone: a.parquet" in damaged.fact


def test_what_waits_on_the_gateways_disk_is_judged_while_kafka_is_away() -> None:
    """By its age and by the room that is left, for pipelines of a stream alone."""
    stream = PIPELINE.model_copy(update={"stream": "clicks"})
    away = HealthFacts(now_ms=NOW, is_known=False, error=RetryableError("away", code="x", hint=""))
    late = look(replace(away, spool=SpoolFacts(2, 900, NOW - 301_000, 0.1)), "spool", stream)
    assert (late.passed, late.severity) == (False, Severity.ERROR)
    assert late.fact.startswith(
        "2 batches wait on the gateway's disk for Kafka (900 bytes), the oldest for 5 min"
    )
    assert late.numbers == {"batches": 2, "bytes": 900, "age_seconds": 301, "used_share": 0.1}
    assert "--drain-spool" in late.mend
    assert look(replace(away, spool=SpoolFacts(2, 900, NOW - 299_000, 0.8)), "spool", stream).passed
    assert not look(replace(WELL, spool=SpoolFacts(0, 0, None, 0.81)), "spool", stream).passed
    assert look(replace(away, spool=None), "spool", stream).passed
    assert not look(replace(away, spool=SpoolFacts(0, 0, None, 0, "malformed")), "spool", stream).passed
    assert {"spool", "source_events"} == {check.name for check in checks_of(stream)} - {
        check.name for check in checks_of(PIPELINE)
    }
    mirror = stream.model_copy(update={"layout": layout_named("mirror")})
    assert {"spool", "exact"} == {each.name for each in checks_of(mirror)} - {
        each.name for each in checks_of(PIPELINE)
    }


@pytest.mark.parametrize(("gaps", "doubles"), [(1, 0), (0, 1), (0, 0)])
def test_a_sources_event_that_is_missing_or_doubled_is_told(gaps: int, doubles: int) -> None:
    """With the source; where nobody has looked yet nothing is said against it."""
    stream = PIPELINE.model_copy(update={"stream": "clicks"})
    found = SourceEvents(9, gaps, doubles, ("source 'tab'",))
    told = look(
        replace(WELL, audit=AuditNote(NOW, 9, 0, 0, 0, 0, source_events=found)), "source_events", stream
    )
    assert told.passed is not bool(gaps or doubles)
    assert told.fact == f"audit of 9 events 0 s ago: {gaps} missing, {doubles} duplicated; source 'tab'"
    assert look(WELL, "source_events", stream).passed


def test_a_changed_schema_is_named() -> None:
    """What changed is the line."""
    changed = replace(TABLE, schema_changes=("added note (string)",))
    assert look(replace(WELL, table=changed), "schema").fact == "added note (string)"
    assert not look(replace(WELL, table=changed), "schema").passed


def test_severity_is_the_pipelines_choice() -> None:
    """`off` leaves a check out, `warn` keeps it from being an error."""
    pipeline = checked(off=["fresh"], warn=["stall", "fresh"])
    facts = replace(WELL, held=("a",))
    assert "fresh" not in [check.name for check in checks_of(pipeline)]
    assert "fresh" not in [result.name for result in judge(pipeline, facts)]
    assert look(facts, "stall").is_failed_error
    assert not look(facts, "stall", pipeline).is_failed_error


@pytest.mark.parametrize("check", CHECKS, ids=attrgetter("name"))
def test_every_check_has_a_meaning_and_a_runbook(check: Check) -> None:
    """A name without a sentence and an anchor helps nobody at night."""
    assert check.meaning.endswith(".")
    assert check.runbook == f"docs/runbook.md#check-{check.name}"


def test_a_mirror_is_exact_while_nothing_of_it_was_left_out() -> None:
    """No dead letter, no skipped offset, no accepted restart; its files may have more rows than live."""
    mirror = PIPELINE.model_copy(update={"layout": layout_named("mirror")})
    batch = replace(BATCH, added_rows=None)
    told = replace(TABLE, batches=(batch,))
    assert all(result.passed for result in judge(mirror, replace(WELL, table=told)))
    for left_out in ({"dead_letters": 1}, {"skipped": 2}, {"restarts": 1}):
        failed = look(replace(WELL, table=replace(told, **left_out)), "exact", mirror)
        assert (failed.is_failed_error, "./sluice rebuild orders" in failed.mend) == (True, True)
    respelled = ConfigError("two rows", code="mirror-key-spelling", hint="…")
    failed = look(replace(WELL, table=told, error=respelled), "exact", mirror)
    assert (failed.is_failed_error, failed.fact) == (True, "two rows")
    again = replace(batch, balance=Balance(batch.balance, told_again=3))
    skipped = look(replace(WELL, table=replace(told, batches=(again,))), "exact", mirror)
    assert (skipped.passed, "3 repeated changes ignored" in skipped.fact) == (True, True)
    others = AuditNote(WELL.now_ms, 5, 0, 0, 0, 0, foreign=2)
    mixed = look(replace(WELL, table=told, audit=others), "exact", mirror)
    assert (mixed.is_failed_error, "./sluice rebuild orders" in mixed.mend) == (True, True)
    assert "layout: changes" in mixed.fact
    assert not look(replace(WELL, table=told, audit=others), "complete", mirror).passed
    assert "exact" not in {check.name for check in checks_of(PIPELINE)}
    many = replace(batch, balance=Balance(rows=0, dead_letters=10))
    letters = look(replace(WELL, table=replace(told, batches=(many,))), "dead_letters", mirror)
    assert "rebuild" in letters.mend
