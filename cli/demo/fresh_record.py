"""The demo's last step: a record that is in the answers of ``serve`` before any drain, and after it, once."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from itertools import islice
from typing import Any

from cli import output
from cli.stand.running import Servers
from cli.stand.sample_data import WEATHER, Delivery, end_offsets, read_sample
from cli.work import connections_for
from servers.asking import asked, away
from servers.beside import SERVE
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import embedded_kafka
from spark_jobs.drain.drain import drain
from spark_jobs.protocol.errors import CommitConflict, RetryableError

PIPELINE = "weather"
QUESTION = """\
SELECT count(*) AS times, max(_ingested_at) AS in_table_since FROM weather \
WHERE (_kafka_partition, _kafka_offset) = ({partition}, {offset})"""
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.1
_BUDGET_SECONDS = 60.0


def show_fresh_record(servers: Servers) -> bool:
    """Produce a record, ask for it, drain it, ask again; whether it was there once both times."""
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
    output.say(f"  before any drain: {_told(before)}; {took} after Kafka had it")
    drain_now(config, pipeline)
    after = _answer_from_table(config, body)
    output.say(f"  after it:         {_told(after)}")
    return all(answer["rows"][0][0] == 1 for answer in (before, after))


def _produce(config: SluiceConfig) -> tuple[int, int]:
    """Produce one more record of the sample and return where it is; nobody else produces."""
    properties = embedded_kafka(config.home)
    (record,) = islice(read_sample(WEATHER), 1)
    delivery = Delivery(properties)
    delivery.send(WEATHER.topic, record)
    delivery.flush()
    return record.partition, end_offsets(properties, WEATHER.topic)[record.partition] - 1


def drain_now(config: SluiceConfig, pipeline: PipelineConfig) -> None:
    """Drain it here, unless the sensor's own run does."""
    with (
        connections_for(config, pipeline, "drain") as connections,
        suppress(CommitConflict),  # the sensor's own run was faster
    ):
        drain(pipeline, connections, budget_seconds=_BUDGET_SECONDS, on_progress=lambda _batch: None)


def _until_it_answers(servers: Servers) -> str:
    """Return where it answers by then: at another address, if another Sluice took the usual one."""
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
            return servers.beside[SERVE].url


def _answer_from_table(config: SluiceConfig, body: dict[str, Any]) -> dict[str, Any]:
    """Return the first answer that has the row out of the table, which is looked at once a second."""
    deadline = time.monotonic() + _READY_SECONDS
    while (answer := _answer(config, body))["rows"][0][1] is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return answer


def _answer(config: SluiceConfig, body: dict[str, Any]) -> dict[str, Any]:
    answered = asked(config, "POST", "/v1/query", body)
    if answered is None:
        raise away("nobody listens")
    return dict(answered.json())


def _told(answer: dict[str, Any]) -> str:
    ((times, since),) = answer["rows"]
    where = f"in the table since {since}" if since else "not in the table"
    return f"{output.count(times, 'row')}, {where}, watermark {answer['watermark']}"
