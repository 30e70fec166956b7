"""A follower queried throughout, while work on its table dies and its topic changes.

Each answer holds exactly the records below its watermark, and none has less than the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from prove.crash.act_jobs import ACCEPT, RETYPE
from prove.crash.jobs import DRAIN, REPLAY, ROLLBACK, drain_twice
from prove.crash.redrive_jobs import REDRIVE
from prove.crash.schema_jobs import NEW_SCHEMA
from prove.hostile import kafka
from prove.hostile.case import Case, History, expect_refusal, own_kafka_case, scenarios, skip_offsets
from prove.lab.pipeline_lab import PIPELINE, configure
from prove.lab.steady_queries import query_throughout
from prove.workload import NESSIE, REST, SQLITE, Workload

if TYPE_CHECKING:
    from prove.crash.jobs import Job
    from prove.lab.brokers import Brokers

EXACT = "every answer is exactly the records below its watermark, none has less than the one before"
_HOT = {"hot": True}
_OTHER_TOPIC = ("topic-recreated", "topic-gone", "log-truncated", "no-such-topic")
# What readers may meet: files that nobody committed, rows whose dead letters have yet to come in, both in.
_SWAPS = ("dead-letters.before-swap", "dead-letters.after-swap")
KILLS: tuple[tuple[Job, tuple[str, ...]], ...] = (
    (DRAIN, ("drain.after-parquet-written", "commit.before-swap", "commit.after-swap", *_SWAPS)),
    (REPLAY, ("replay.before-swap", "replay.after-swap", *_SWAPS)),
    (ROLLBACK, ("rollback.before-swap", "rollback.after-swap", *_SWAPS)),
    # Without the head of the topic that Kafka has lost there: the answers are held against all of it.
    (replace(RETYPE, prepare=drain_twice), ("change.after-swap", "retype.after-swap")),
    (REDRIVE, ("redrive.before-swap", "redrive.after-swap", *_SWAPS)),
    (NEW_SCHEMA, ("columns.before-swap", "columns.after-swap", "commit.after-swap")),
    (ACCEPT, ("act.before-swap", "act.after-swap")),
)
_CATALOGS = {DRAIN.name: (SQLITE, REST, NESSIE), ROLLBACK.name: (SQLITE, REST)}


def _killed(job: Job, point: str, workload: Workload) -> History:
    job.set_up(workload)
    refusals = _OTHER_TOPIC if job is ACCEPT else ()
    # An expression judges these records, a schema those, and a new column is null until it is filled.
    is_json = job.name not in {REDRIVE.name, NEW_SCHEMA.name, RETYPE.name}
    with query_throughout(workload.lab, refusals=refusals, is_json=is_json) as (asker, loop):
        workload.lab.kill_at(point, work=job.work)
        loop.wait_for(loop.done + 2)
        workload.produce_batch()
        for work in job.again:
            workload.run(work)
        loop.wait_for(loop.done + 2)
    return History(f"{asker.answers} answers, all exact", of_earlier=job.of_earlier)


def _meets(inject: Callable[[Workload], History], workload: Workload) -> History:
    """Follow during one of the topic cases."""
    with query_throughout(workload.lab, refusals={"no-table-yet"}) as (asker, _):
        history = inject(workload)
    return History(f"{history.happened}; {asker.answers} answers, all exact", of_earlier=history.of_earlier)


def _retention_passes(workload: Workload) -> History:
    """Test records that Kafka deleted before a drain; the follower keeps them until they are skipped."""
    workload.drain_and_produce()
    with query_throughout(workload.lab) as (asker, loop):
        asker.ask_for_all()
        workload.kafka.delete_records(workload.lab.pipeline.topic, {0: kafka.HALF + kafka.TAKEN})
        loop.wait_for(loop.done + 5)
        ended = expect_refusal(workload, "retention-passed")
        skip_offsets(workload, 0, kafka.HALF, kafka.HALF + kafka.TAKEN, kafka.TAKEN)
    return History(f"{ended}; {asker.answers} answers, all exact")


def _topic_made_again(workload: Workload) -> History:
    workload.drain_batches()
    with query_throughout(workload.lab, refusals=_OTHER_TOPIC) as (asker, loop):
        # What answers are held against must be read before it is gone.
        asker.ask_for_all()
        workload.recreate_topic()
        loop.wait_for(loop.done + 3)
        history = kafka.accept(workload, expect_refusal(workload, "topic-recreated"))
    return replace(history, happened=f"{history.happened}; {asker.answers} answers, all exact")


def _broker_killed(workload: Workload, brokers: Brokers) -> History:
    configure(workload.lab, f"pipelines/{PIPELINE}", _HOT)
    workload.drain_and_produce()
    with query_throughout(workload.lab) as (asker, loop):
        asker.ask_for_all()
        brokers.kill()
        loop.wait_for(loop.done + 2)
        brokers.start()
        workload.produce_batch()
        asker.ask_for_all()
        workload.run()
    return History(f"{asker.answers} answers, before, without a broker and with it again")


def _case(name: str, title: str, inject: Callable[[Workload], History], **more: Any) -> Case:
    return Case(f"followed/{name}", f"{title}, while a follower answers", EXACT, inject, **more)


_TOPICS = {"transactions", "partitions-added"}
CASES = (
    *(
        _case(
            f"{job.name}-{point}",
            f"{job.title} dies at {point}",
            partial(_killed, job, point),
            catalogs=_CATALOGS.get(job.name, (SQLITE,)),
            settings={**job.settings, **_HOT},
        )
        for job, points in KILLS
        for point in points
    ),
    *(
        _case(each.name, each.title, partial(_meets, each.inject), settings=_HOT)
        for each in kafka.CASES
        if each.name in _TOPICS
    ),
    _case("topic-made-again", "the topic is deleted and made again", _topic_made_again, settings=_HOT),
    _case("retention", "retention passes the table's next offset", _retention_passes, settings=_HOT),
)
SCENARIOS = (
    *scenarios("a follower's answers", CASES),
    own_kafka_case(
        "followed/broker-killed", "the broker is killed while a follower answers", EXACT, _broker_killed
    ),
)
