"""What may happen in a soak: each event draws from a generator of its own, and tells how it went."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from prove.crash.blows import SOON
from prove.crash.jobs import CHECKPOINT, DRAIN, RECOVERY, RECOVERY_OF_HALF, REPLAY, ROLLBACK
from prove.lab.fault_proxy import Fault
from prove.lab.harm_proxy import Harm
from prove.lab.kafka_server import unique_name
from prove.lab.patience import Patience
from spark_jobs.books.entries import books_of
from spark_jobs.lake.tables import dead_letters_of
from spark_jobs.protocol.fail_points import NoFailPoints
from spark_jobs.upkeep.registry import KINDS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from prove.crash.jobs import Job
    from prove.soak.scene import Scene

MOST_SLEEPERS = 3
STORE_HARMS = tuple(harm for harm in Harm if harm is not Harm.SILENT)  # that one is waited for very long
SILENT = frozenset({Fault.NO_ANSWER, Fault.LANDED_NO_ANSWER})


def _drained(scene: Scene, _draw: random.Random) -> str:
    return scene.end(scene.play.lab.start())


def _two_at_once(scene: Scene, _draw: random.Random) -> str:
    first, second = scene.play.lab.start(), scene.play.lab.start()
    return f"{scene.end(first)}, {scene.end(second)}"


def _killed(scene: Scene, draw: random.Random) -> str:
    job = draw.choice((DRAIN, DRAIN, RECOVERY, RECOVERY_OF_HALF, REPLAY, ROLLBACK, CHECKPOINT))
    point = draw.choice(tuple(job.points))
    ended = scene.end(scene.play.lab.start(point, work=_work(job, scene, draw)))
    return f"{job.name} at {point}: {ended}"


def _killed_any_time(scene: Scene, draw: random.Random) -> str:
    process = scene.play.lab.start()
    time.sleep(draw.random())
    process.kill()
    return scene.end(process)


def _asleep(scene: Scene, draw: random.Random) -> str:
    job = draw.choice((DRAIN, DRAIN, RECOVERY_OF_HALF, REPLAY, ROLLBACK, CHECKPOINT))
    point = draw.choice(tuple(job.points))
    if len(scene.sleepers) == MOST_SLEEPERS:
        scene.wake()
    once = scene.play.folder / unique_name("slept")
    process = scene.play.lab.start(point, signal.SIGSTOP, once=str(once), work=_work(job, scene, draw))
    if not process.sleeps_or_ended():
        return f"{job.name} at {point}: not reached, {scene.end(process)}"
    scene.sleepers.append(process)
    return f"{job.name} at {point}; its replacement {scene.end(scene.play.lab.start())}"


def _woken(scene: Scene, _draw: random.Random) -> str:
    return scene.wake() if scene.sleepers else "nobody slept"


def _commit_struck(scene: Scene, draw: random.Random) -> str:
    fault, job = draw.choice(tuple(Fault)), draw.choice((DRAIN, DRAIN, REPLAY, ROLLBACK, CHECKPOINT))
    table = scene.play.lab.pipeline.table
    struck = books_of(table) if job is CHECKPOINT else draw.choice((table, table, dead_letters_of(table)))
    path = "/namespaces/{}/tables/{}".format(*struck.rsplit(".", 1))
    work = _work(job, scene, draw)
    scene.proxy.arm(fault, lambda method, asked: method == "POST" and asked.endswith(path))
    patience = Patience(SOON, answer=2.0 if fault in SILENT else None)
    ended = scene.end(scene.play.lab.start_struck(NoFailPoints(), work=work, patience=patience))
    scene.proxy.disarm()
    return f"{job.name}, {fault.value}: {ended}"


def _broker_away(scene: Scene, draw: random.Random) -> str:
    process = scene.play.lab.start()
    time.sleep(draw.random())
    if draw.random() < 0.5:
        with scene.broker.silent():
            time.sleep(draw.uniform(0.2, 2.0))
        return f"silent: {scene.end(process)}"
    scene.broker.kill()
    scene.broker.start()
    return f"killed, started again: {scene.end(process)}"


def _catalog_away(scene: Scene, draw: random.Random) -> str:
    process = scene.play.lab.start_struck(NoFailPoints(), patience=Patience(SOON))
    time.sleep(draw.random())
    with scene.proxy.away():
        time.sleep(draw.uniform(0.2, 2.0))
    return scene.end(process)


def _store_harmed(scene: Scene, draw: random.Random) -> str:
    harm = draw.choice(STORE_HARMS)
    process = scene.play.lab.start()
    time.sleep(draw.random())
    scene.store.suffer(harm)
    time.sleep(draw.uniform(0.2, 2.0))
    scene.store.suffer(None)
    return f"{harm.value}: {scene.end(process)}"


def _upkeep(scene: Scene, draw: random.Random) -> str:
    kind = draw.choice(KINDS)
    point = draw.choice(("", "", *kind.fail_points))
    drain = scene.play.lab.start()
    ended = scene.end(scene.play.lab.start(point, work=kind.name))
    return f"{kind.name}{f' at {point}' if point else ''}: {ended}; beside it a drain {scene.end(drain)}"


def _folded(scene: Scene, draw: random.Random) -> str:
    return _beside_a_drain(CHECKPOINT, scene, draw)


def _replayed(scene: Scene, draw: random.Random) -> str:
    return _beside_a_drain(REPLAY, scene, draw)


def _rolled_back(scene: Scene, draw: random.Random) -> str:
    return _beside_a_drain(ROLLBACK, scene, draw)


def _beside_a_drain(job: Job, scene: Scene, draw: random.Random) -> str:
    process = scene.play.lab.start(work=_work(job, scene, draw))
    drain = scene.play.lab.start()
    return f"{scene.end(process)}, beside it a drain {scene.end(drain)}"


def _new_field(scene: Scene, _draw: random.Random) -> str:
    return f"now {scene.producer.add_field()}"


def _bad_records(scene: Scene, draw: random.Random) -> str:
    count = draw.randrange(10, 100)
    scene.producer.produce(count, bad_share=0.5)
    return f"{count} records, half of them bad"


def _work(job: Job, scene: Scene, draw: random.Random) -> str:
    return f"replay {scene.offsets(draw)}" if job is REPLAY else job.work


# By the name that is counted, and how often each comes in relation to the others.
EVENTS: Mapping[str, tuple[int, Callable[[Scene, random.Random], str]]] = {
    "drains": (4, _drained),
    "drains two at once": (2, _two_at_once),
    "kills at a point": (8, _killed),
    "kills at any time": (3, _killed_any_time),
    "runs stopped": (4, _asleep),
    "runs continued": (3, _woken),
    "commits struck": (8, _commit_struck),
    "outages of the broker": (2, _broker_away),
    "outages of the catalog": (3, _catalog_away),
    "outages of the store": (3, _store_harmed),
    "upkeep": (6, _upkeep),
    "folds": (2, _folded),
    "replays": (3, _replayed),
    "rollbacks": (2, _rolled_back),
    "new fields": (1, _new_field),
    "bursts of bad records": (2, _bad_records),
}
