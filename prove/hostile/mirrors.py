"""Mirrors next to writers that do not know them: a compaction, a run thought dead."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from prove.crash.mirror_jobs import MIRROR, drain_and_change, find_other_rows
from prove.hostile.case import Case, History, describe_error, scenarios, skip_offsets
from prove.lab.debezium import ends
from prove.lab.forked import fork
from prove.lab.generated_changes import SourceEvent
from prove.lab.pipeline_lab import PIPELINE, Lab, configure, make_lab
from prove.workload import PARTITIONS, REST, SQLITE, Workload
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.spark.procedures import call_procedure, table_argument

ROUNDS = 10
SEEDS = 20  # of a case
_FINISH_SECONDS = 180.0
_SPARK = frozenset({"spark"})
_NOTHING_PASSES = {
    "name": "strict",
    "when": "gate",
    "expectations": [{"expect_column_values_to_be_between": {"column": "score", "max_value": -1}}],
}


def _beside_compaction(workload: Workload) -> History:
    """Drain repeatedly while another engine rewrites the table's files without a pause."""
    drain_and_change(workload)
    is_over, outcomes = threading.Event(), list[bool]()
    compaction = threading.Thread(target=_compact_until, args=(workload.lab, is_over, outcomes))
    compaction.start()
    try:
        for _ in range(ROUNDS):
            workload.produce_batch()
            workload.run()
            wrong = list(find_other_rows(workload))
            assert not wrong, wrong
    finally:
        is_over.set()
        compaction.join()
    wrong = list(find_other_rows(workload))
    assert not wrong, wrong
    assert True in outcomes, "no compaction came through"
    return History(f"{ROUNDS} drains beside {len(outcomes)} compactions, {outcomes.count(True)} came through")


def _compact_until(lab: Lab, is_over: threading.Event, outcomes: list[bool]) -> None:
    catalog = lab.table().catalog.name
    while not is_over.is_set():
        process, _ = fork(_compact, lab.path, catalog, lab.tables[0])
        process.join(_FINISH_SECONDS)
        outcomes.append(process.exitcode == 0)


def _compact(_sender: Connection, path: Path, catalog: str, table: str) -> None:
    """Rewrite the files, or fail: positions were deleted meanwhile by another commit."""
    arguments: dict[str, Any] = {
        "table": table_argument(catalog, table),
        "options": {"rewrite-all": "true", "delete-file-threshold": "1", "remove-dangling-deletes": "true"},
    }
    config = load_config(path)
    with open_connections(config, PIPELINE, kind="upkeep", actor="other", run_id="other") as connections:
        call_procedure(connections.spark(), catalog, "rewrite_data_files", arguments, tag="another-engine")


def _two_at_once(workload: Workload) -> History:
    """Let a second run do what a first one is about to commit, then continue the first."""
    drain_and_change(workload)
    with workload.lab.stopped_at("commit.before-swap") as asleep:
        workload.run()
        asleep.go_on()
        error = asleep.answer().named_error
    assert error in {None, "offsets-moved"}, error
    workload.produce_batch()
    workload.run()
    wrong = list(find_other_rows(workload))
    assert not wrong, wrong
    return History(f"the one that slept ended with {error or 'what the other had committed'}")


def _held_then_rebuilt(workload: Workload) -> History:
    """Hold a batch, rebuild the mirror while its publishing sleeps, and publish again."""
    lab = workload.lab
    drain_and_change(workload)
    configure(lab, f"pipelines/{PIPELINE}", {"quality": [_NOTHING_PASSES]})
    workload.run()
    asleep = lab.start("held.after-published", signal.SIGSTOP, work="publish")
    try:
        asleep.wait_until_stopped()
        configure(lab, f"pipelines/{PIPELINE}", {"quality": None})
        workload.run("rebuild")
        before = lab.table().metadata.current_snapshot_id
        asleep.go_on()
        errors = (asleep.answer().named_error, lab.start(work="publish").answer().named_error)
    finally:
        asleep.kill()
    assert errors == ("held-not-published", "nothing-held"), errors
    assert lab.table().metadata.current_snapshot_id == before, "the held batch was committed"
    workload.produce_batch()
    workload.run()
    wrong = list(find_other_rows(workload))
    assert not wrong, wrong
    return History("its publishing was refused, under way and begun later")


def _generated(first_seed: int, workload: Workload) -> History:
    """Drain a source's changes by batch; then another source's, into a rebuilt mirror."""
    seeds = range(first_seed, first_seed + SEEDS)
    for seed in seeds:
        with_others = workload.lab.path.with_name(f"seed-{seed}")
        own = _similar_pipeline(workload, with_others)
        drain_and_change(own, seed)
        for _ in range(ROUNDS):
            own.produce_batch()
            own.lab.drain()
            wrong = list(find_other_rows(own))
            assert not wrong, (seed, wrong)
        assert own.lab.audit().is_clean, seed
    drain_and_change(workload)
    workload.run()
    return History(f"{SEEDS} sources, {SEEDS * (ROUNDS + 2)} drains: equal after each")


def _similar_pipeline(workload: Workload, folder: Path) -> Workload:
    """Return a similar pipeline with its own topic and folder."""
    folder.mkdir()
    topic = workload.kafka.new_topic(PARTITIONS, retention_ms=-1)
    lab = make_lab(folder, bootstrap=workload.kafka, topic=topic, spark_remote=None, **MIRROR.settings)
    return Workload(replace(lab, is_here=True), workload.kafka, folder)


def _another_source(code: str, source: dict[str, str], workload: Workload) -> History:
    """Produce a change of another source or table between two batches."""
    drain_and_change(workload)
    workload.run()
    topic = workload.lab.pipeline.topic
    told = SourceEvent("u", 1, 1 << 40, 1 << 40, 1_900_000_000_000, 7, "foreign").record(PARTITIONS)
    value = json.loads(told.value or b"")
    value["source"] |= source
    offset = ends(workload.kafka, topic)[told.partition or 0]
    workload.kafka.produce(topic, [replace(told, value=json.dumps(value).encode())])
    workload.produce_batch()
    happened = describe_error(workload.lab.start().answer(), (code,))
    lost = [row["note"] for row in workload.lab.rows().to_pylist() if row["note"] == "foreign"]
    assert not lost, "the foreign row is in the mirror"
    skip_offsets(workload, told.partition or 0, offset, offset + 1, rows=0)
    workload.run()
    wrong = list(find_other_rows(workload))
    assert not wrong, wrong
    return History(f"{happened}; left out, the mirror went on")


CASES = (
    *(
        Case(
            f"mirror/{code}",
            f"{who} tells of a key in the topic of a mirror",
            f"drains stop (`{code}`), nothing of it is committed; left out, each key is as its source has it",
            partial(_another_source, code, source),
            catalogs=(SQLITE, REST),
            settings=MIRROR.settings,
        )
        for code, who, source in (
            ("another-source", "a second server", {"name": "other"}),
            ("another-table", "another table", {"table": "orders"}),
        )
    ),
    *(
        Case(
            f"mirror/generated-{first}",
            f"{SEEDS} sources, made up from the seeds {first} and on, are mirrored drain by drain",
            "after every drain the mirror has the rows of its source, and an audit says so",
            partial(_generated, first),
            settings=MIRROR.settings,
        )
        for first in range(100, 200, SEEDS)
    ),
    Case(
        "mirror/beside-compaction",
        "another engine compacts a mirror without a pause while it is drained",
        "each key is there once, as its source has it, after every drain",
        _beside_compaction,
        catalogs=(SQLITE, REST),
        settings=MIRROR.settings,
        needs=_SPARK,
    ),
    Case(
        "mirror/two-at-once",
        "a run falls asleep before its commit and another one does the same",
        "one of them commits; each key is there once",
        _two_at_once,
        catalogs=(SQLITE, REST),
        settings=MIRROR.settings,
    ),
    Case(
        "mirror/held-then-rebuilt",
        "a batch is held, and the mirror made anew before it is published",
        "it is not committed; each key is there once",
        _held_then_rebuilt,
        catalogs=(SQLITE, REST),
        settings=MIRROR.settings,
    ),
)
SCENARIOS = scenarios("a mirror and others", CASES)
