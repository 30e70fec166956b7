"""The demo's short tour of what keeps a table healthy: a compaction, a replay, the checks."""

from __future__ import annotations

import time

from cli import output
from cli.work import connections_for, verdict
from spark_jobs.audit.audit import audit
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.monitoring.checkup import check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.replay import replay
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep

PIPELINE = "weather"
RANGE = OffsetRange(0, 1000, 3000)


def walk(config: SluiceConfig) -> bool:
    """Tidy up, do a range again, look at both; whether every record is still in the table once."""
    pipeline = next(one for one in config.pipelines if one.name == PIPELINE)
    _compact(config, pipeline)
    _replay(config, pipeline)
    is_clean = _audit(config, pipeline)
    _check(config)
    return is_clean


def _compact(config: SluiceConfig, pipeline: PipelineConfig) -> None:
    with connections_for(config, pipeline, "upkeep") as connections:
        table, *_ = run_upkeep(BY_NAME["compaction"], pipeline, connections).tables
    took = output.seconds(table.milliseconds)
    if table.done.note:
        output.say(f"  compaction: {table.done.note} ({table.after.data_files} files, {took})")
        return
    output.say(
        f"  compaction: {table.before.data_files:,} files became {table.after.data_files:,}, "
        f"{table.before.bytes:,} bytes became {table.after.bytes:,} ({took})"
    )


def _replay(config: SluiceConfig, pipeline: PipelineConfig) -> None:
    began = time.monotonic()
    with connections_for(config, pipeline, "replay") as connections:
        result = replay(pipeline, connections, [RANGE], reason="the demo's tour")
    took = output.seconds((time.monotonic() - began) * 1000)
    output.say(
        f"  replay of offsets {RANGE}: {result.balance.rows:,} rows in place of the same rows ({took})"
    )


def _audit(config: SluiceConfig, pipeline: PipelineConfig) -> bool:
    with connections_for(config, pipeline, "audit") as connections:
        result = audit(pipeline, connections)
    output.say(f"  audit after both: {verdict(result)}")
    return result.is_clean


def _check(config: SluiceConfig) -> None:
    for health in check_up(Surveyor(config)):
        failed = [result for result in health.results if not result.passed]
        passed = ", ".join(result.name for result in health.results if result.passed)
        output.say(f"  checks of {health.pipeline.name}: {passed} passed")
        for result in failed:
            output.say(f"    {result.name}: {result.fact}")
