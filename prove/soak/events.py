"""Events of a soak: each uses its own random generator, and describes its result."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial

from prove.crash.jobs import CHECKPOINT, DRAIN, RECOVERY, RECOVERY_OF_HALF, REPLAY, ROLLBACK, Job
from prove.crash.nemeses import SOON
from prove.lab.fault_proxy import Fault
from prove.lab.harm_proxy import Harm
from prove.lab.kafka_server import unique_name
from prove.lab.patience import Patience
from prove.soak.live_workload import LiveWorkload
from spark_jobs.books.entries import books_of
from spark_jobs.lake.tables import dead_letters_of
from spark_jobs.protocol.work import NoFailPoints
from spark_jobs.upkeep.registry import KINDS

MOST_SLEEPERS = 3
STORE_HARMS = tuple(harm for harm in Harm if harm is not Harm.SILENT)  # that one is waited for very long
SILENT = frozenset({Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER})


def _drain(live: LiveWorkload, _draw: random.Random) -> str:
    return live.end(live.workload.lab.start())


def _drain_twice_at_once(live: LiveWorkload, _draw: random.Random) -> str:
    first, second = live.workload.lab.start(), live.workload.lab.start()
    return f"{live.end(first)}, {live.end(second)}"


def _kill_at_point(live: LiveWorkload, draw: random.Random) -> str:
    job = draw.choice((DRAIN, DRAIN, RECOVERY, RECOVERY_OF_HALF, REPLAY, ROLLBACK, CHECKPOINT))
    point = draw.choice(tuple(job.points))
    ended = live.end(live.workload.lab.start(point, work=_work(job, live, draw)))
    return f"{job.name} at {point}: {ended}"


def _kill_any_time(live: LiveWorkload, draw: random.Random) -> str:
    process = live.workload.lab.start()
    time.sleep(draw.random())
    process.kill()
    return live.end(process)


def _stop(live: LiveWorkload, draw: random.Random) -> str:
    job = draw.choice((DRAIN, DRAIN, RECOVERY_OF_HALF, REPLAY, ROLLBACK, CHECKPOINT))
    point = draw.choice(tuple(job.points))
    if len(live.sleepers) == MOST_SLEEPERS:
        live.wake()
    once = live.workload.folder / unique_name("slept")
    process = live.workload.lab.start(point, signal.SIGSTOP, once=str(once), work=_work(job, live, draw))
    if not process.sleeps_or_ended():
        return f"{job.name} at {point}: not reached, {live.end(process)}"
    live.sleepers.append(process)
    return f"{job.name} at {point}; its replacement {live.end(live.workload.lab.start())}"


def _wake(live: LiveWorkload, _draw: random.Random) -> str:
    return live.wake() if live.sleepers else "nobody slept"


def _falsify_commit(live: LiveWorkload, draw: random.Random) -> str:
    fault, job = draw.choice(tuple(Fault)), draw.choice((DRAIN, DRAIN, REPLAY, ROLLBACK, CHECKPOINT))
    table = live.workload.lab.pipeline.table
    target = books_of(table) if job is CHECKPOINT else draw.choice((table, table, dead_letters_of(table)))
    path = "/namespaces/{}/tables/{}".format(*target.rsplit(".", 1))
    work = _work(job, live, draw)
    live.proxy.arm(fault, lambda method, asked: method == "POST" and asked.endswith(path))
    patience = Patience(SOON, answer=2.0 if fault in SILENT else None)
    ended = live.end(live.workload.lab.start_with(NoFailPoints(), work=work, patience=patience))
    live.proxy.disarm()
    return f"{job.name}, {fault.value}: {ended}"


def _take_broker_away(live: LiveWorkload, draw: random.Random) -> str:
    process = live.workload.lab.start()
    time.sleep(draw.random())
    if draw.random() < 0.5:
        with live.broker.silent():
            time.sleep(draw.uniform(0.2, 2.0))
        return f"silent: {live.end(process)}"
    live.broker.kill()
    live.broker.start()
    return f"killed, started again: {live.end(process)}"


def _take_catalog_away(live: LiveWorkload, draw: random.Random) -> str:
    process = live.workload.lab.start_with(NoFailPoints(), patience=Patience(SOON))
    time.sleep(draw.random())
    with live.proxy.away():
        time.sleep(draw.uniform(0.2, 2.0))
    return live.end(process)


def _harm_store(live: LiveWorkload, draw: random.Random) -> str:
    harm = draw.choice(STORE_HARMS)
    process = live.workload.lab.start()
    time.sleep(draw.random())
    live.store.suffer(harm)
    time.sleep(draw.uniform(0.2, 2.0))
    live.store.suffer(None)
    return f"{harm.value}: {live.end(process)}"


def _upkeep(live: LiveWorkload, draw: random.Random) -> str:
    kind = draw.choice(KINDS)
    point = draw.choice(("", "", *kind.fail_points))
    drain = live.workload.lab.start()
    ended = live.end(live.workload.lab.start(point, work=kind.name))
    return f"{kind.name}{f' at {point}' if point else ''}: {ended}; beside it a drain {live.end(drain)}"


def _beside_a_drain(job: Job, live: LiveWorkload, draw: random.Random) -> str:
    process = live.workload.lab.start(work=_work(job, live, draw))
    drain = live.workload.lab.start()
    return f"{live.end(process)}, beside it a drain {live.end(drain)}"


def _add_field(live: LiveWorkload, _draw: random.Random) -> str:
    return f"now {live.producer.add_field()}"


def _produce_bad_records(live: LiveWorkload, draw: random.Random) -> str:
    count = draw.randrange(10, 100)
    live.producer.produce(count, bad_share=0.5)
    return f"{count} records, half of them bad"


def _work(job: Job, live: LiveWorkload, draw: random.Random) -> str:
    return f"replay {live.offsets(draw)}" if job is REPLAY else job.work


# By the name that is counted, and how often each comes in relation to the others.
EVENTS: Mapping[str, tuple[int, Callable[[LiveWorkload, random.Random], str]]] = {
    "drains": (4, _drain),
    "drains two at once": (2, _drain_twice_at_once),
    "kills at a point": (8, _kill_at_point),
    "kills at any time": (3, _kill_any_time),
    "runs stopped": (4, _stop),
    "runs continued": (3, _wake),
    "commits struck": (8, _falsify_commit),
    "outages of the broker": (2, _take_broker_away),
    "outages of the catalog": (3, _take_catalog_away),
    "outages of the store": (3, _harm_store),
    "upkeep": (6, _upkeep),
    "folds": (2, partial(_beside_a_drain, CHECKPOINT)),
    "replays": (3, partial(_beside_a_drain, REPLAY)),
    "rollbacks": (2, partial(_beside_a_drain, ROLLBACK)),
    "new fields": (1, _add_field),
    "bursts of bad records": (2, _produce_bad_records),
}
