"""Maintenance steps of the demo: compaction, replay, checks; and a query of a record before its drain."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from itertools import islice
from typing import Any

from cli import output
from cli.stand.running import Servers
from cli.stand.sample_data import WEATHER, Delivery, end_offsets, read_sample
from cli.work import connections_for, verdict
from servers.asking import ask_serve
from servers.beside import SERVE
from spark_jobs.audit.audit import audit
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import embedded_kafka
from spark_jobs.drain.drain import drain
from spark_jobs.monitoring.checkup import check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.errors import CommitConflict, RetryableError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.replay import replay
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep

PIPELINE = "weather"
RANGE = OffsetRange(0, 1000, 3000)
QUESTION = """\
SELECT count(*) AS times, max(_ingested_at) AS in_table_since FROM weather \
WHERE (_kafka_partition, _kafka_offset) = ({partition}, {offset})"""
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.1
_BUDGET_SECONDS = 60.0


def walk(config: SluiceConfig) -> bool:
    """Compact, replay a range, audit and run checks; return True if every record is in the table once."""
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
        f"  replay of offsets {RANGE}: {result.balance.rows:,} rows replaced by the same rows ({took})"
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


def show_fresh_record(servers: Servers) -> bool:
    """Produce a record, query it, drain it, query again; return True if both answers have it once."""
    config = servers.config
    pipeline = next(one for one in config.pipelines if one.name == PIPELINE)
    url = _until_it_answers(servers)
    partition, offset = _produce(config)
    produced = time.monotonic()
    body = {
        "pipeline": PIPELINE,
        "sql": QUESTION.format(partition=partition, offset=offset),
        "after": {str(partition): offset},
    }
    before = _answer(config, body)
    took = output.seconds((time.monotonic() - produced) * 1000)
    output.say(f"  curl {url}/v1/query -H 'Content-Type: application/json' -d '{json.dumps(body)}'")
    output.say(f"  before its drain: {_describe(before)}; {took} after Kafka received it")
    drain_now(config, pipeline)
    after = _answer_from_table(config, body)
    output.say(f"  after its drain:  {_describe(after)}")
    return all(answer["rows"][0][0] == 1 for answer in (before, after))


def _produce(config: SluiceConfig) -> tuple[int, int]:
    """Produce one more sample record and return its partition and offset."""
    properties = embedded_kafka(config.home)
    (record,) = islice(read_sample(WEATHER), 1)
    delivery = Delivery(properties)
    delivery.send(WEATHER.topic, record)
    delivery.flush()
    return record.partition, end_offsets(properties, WEATHER.topic)[record.partition] - 1


def drain_now(config: SluiceConfig, pipeline: PipelineConfig) -> None:
    """Drain the pipeline in this process, unless the sensor's run is faster."""
    with (
        connections_for(config, pipeline, "drain") as connections,
        suppress(CommitConflict),  # the sensor's own run was faster
    ):
        drain(pipeline, connections, budget_seconds=_BUDGET_SECONDS, on_progress=lambda _batch: None)


def _until_it_answers(servers: Servers) -> str:
    """Wait until ``serve`` answers and return its address, which may differ from the configured one."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        servers.mend()
        try:
            _answer(servers.config, {"pipeline": PIPELINE, "sql": "SELECT 1"})
        except RetryableError:
            if SERVE not in servers.beside or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
        else:
            return servers.beside[SERVE].urls[SERVE]


def _answer_from_table(config: SluiceConfig, body: dict[str, Any]) -> dict[str, Any]:
    """Return the first answer with the row from the table."""
    deadline = time.monotonic() + _READY_SECONDS
    while (answer := _answer(config, body))["rows"][0][1] is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return answer


def _answer(config: SluiceConfig, body: dict[str, Any]) -> dict[str, Any]:
    answered = ask_serve(config, "POST", "/v1/query", body)
    if answered is None:
        raise fault("serve-away", why="no server listens")
    return dict(answered.json())


def _describe(answer: dict[str, Any]) -> str:
    ((times, since),) = answer["rows"]
    where = f"in the table since {since}" if since else "not in the table"
    return f"{output.count(times, 'row')}, {where}, watermark {answer['watermark']}"
