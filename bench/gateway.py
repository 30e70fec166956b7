"""A gateway with twenty clients, and a bare transactional producer with equal windows, in turns.

The first turn is not counted: a broker that was just started compiles itself, whoever pays for it. Clients
that send as fast as they are acknowledged tell how much a gateway takes, and little of how long an ack takes:
what is on its way waits for all the rest. So in the end they send at the pace that is asked of it, in as many
turns: that makes more and smaller transactions, and a broker compiles what serves them first then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import yaml
from confluent_kafka import Producer
from websockets.sync.client import connect

from gateway.intake import WINDOW_SECONDS
from gateway.session import WINDOW
from prove.lab.gateway_process import GatewayProcess, gateway_settings
from prove.lab.kafka_server import KafkaBroker, unique_name
from spark_jobs.kafka.client_properties import transactional_properties

if TYPE_CHECKING:
    from bench.lab import Lab

CLIENTS = 20
IN_FLIGHT = 2  # of a client: one that is taken, and the one behind it
TURNS = 3
EVENTS = 100
GOAL_RATIO = 0.2
GOAL_ACK = 3.0
_TIMEOUT_SECONDS = 60.0
_CONNECTED_SECONDS = 1.0  # in which all of them have connected
_VALUE = {"id": 1, "customer": "c12", "price": 17.5, "at": "2026-01-01T00:00:00Z", "note": "x" * 80}


@dataclass(frozen=True, slots=True)
class GatewayResult:
    """Events per second of both, and p99 in ms of an ack and of the bare producer's commit.

    ``paced_ms`` is of acks at ``GOAL_RATIO`` of the bare producer's rate, each since its batch was due.
    """

    events: int
    rate: float
    bare_rate: float
    ack_ms: float
    commit_ms: float
    paced_ms: float


def measure_gateway(lab: Lab, batches: int) -> GatewayResult:
    """Send this many batches per client and turn, and as many records in equal windows."""
    with lab.busy_kafka() as address:
        broker, kafka = KafkaBroker(address), {"bootstrap.servers": address}
        folder = lab.folder / unique_name("gateway")
        folder.mkdir()
        path = folder / "sluice.yaml"
        settings = gateway_settings(broker.new_topic(4))
        path.write_text(yaml.safe_dump({"version": 1, "kafka": kafka, "gateway": settings, "pipelines": {}}))
        gateway = GatewayProcess(path)
        try:
            gateway.wait()
            return _measured(gateway.socket, kafka, broker.new_topic(4), batches)
        finally:
            gateway.stop()


def _measured(socket: str, kafka: dict[str, str], bare: str, batches: int) -> GatewayResult:
    turns = [
        (*_by_gateway(socket, f"{turn}-", batches), *_bare(kafka, bare, CLIENTS * batches))
        for turn in range(TURNS)
    ]
    seconds, acks, bare_seconds, commits = zip(*turns[1:], strict=True)
    events = CLIENTS * batches * EVENTS * len(seconds)
    rate, bare_rate = events / sum(seconds), events / sum(bare_seconds)
    every_seconds = CLIENTS * EVENTS / (GOAL_RATIO * bare_rate)
    paced = [_by_gateway(socket, f"paced-{turn}-", batches, every_seconds)[1] for turn in range(TURNS)]
    of_each = (acks, commits, paced[1:])
    p99_ms = [float(np.percentile(np.concatenate(each), 99)) * 1000 for each in of_each]
    return GatewayResult(events, rate, bare_rate, *p99_ms)


def _by_gateway(
    socket: str, name: str, batches: int, every_seconds: float = 0.0
) -> tuple[float, Sequence[float]]:
    acks: list[float] = []
    began = time.monotonic()

    def send(number: int) -> None:
        first_at = began + _CONNECTED_SECONDS + number * every_seconds / CLIENTS
        _send(socket, f"{name}{number}", batches, acks, pace=(first_at, every_seconds))

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(send, range(CLIENTS)))
    return time.monotonic() - began, acks


def _send(url: str, source: str, batches: int, acks: list[float], *, pace: tuple[float, float]) -> None:
    """Send a batch at this interval from a moment on; with zero, as fast as they are acknowledged.

    Who is late keeps to the window that clients are told: a gateway that is behind must come to their pongs.
    """
    first_at, every_seconds = pace
    most = WINDOW if every_seconds else IN_FLIGHT
    # Made once: what is measured has the processors that writing JSON would take.
    made = [{"key": f"{source}-{at}", "value": _VALUE} for at in range(EVENTS)]
    events = json.dumps(made, separators=(",", ":"))  # as browsers write it
    sent: dict[int, float] = {}
    with connect(url, proxy=None, compression=None) as socket:  # as the bare producer
        socket.send(json.dumps({"type": "connect", "sourceId": source, "protocolVersion": 1}))
        socket.recv(_TIMEOUT_SECONDS)
        for number in range(1, batches + 1):
            due = first_at + number * every_seconds if every_seconds else 0.0
            if len(sent) >= most:
                _hear(socket.recv(_TIMEOUT_SECONDS), sent, acks)
            while (wait_seconds := due - time.monotonic()) > 0:
                with suppress(TimeoutError):
                    _hear(socket.recv(wait_seconds), sent, acks)
            text = f'{{"type":"cdc_batch","sequenceNumber":{number},"events":{events}}}'
            sent[number] = due or time.monotonic()
            socket.send(text)
        while sent:
            _hear(socket.recv(_TIMEOUT_SECONDS), sent, acks)


def _hear(text: str | bytes, sent: dict[int, float], acks: list[float]) -> None:
    answer = json.loads(text)
    if answer["type"] != "ack":
        raise RuntimeError(f"a batch was turned away: {text!r}")
    acks.append(time.monotonic() - sent.pop(answer["sequenceNumber"]))


def _bare(kafka: dict[str, str], topic: str, batches: int) -> tuple[float, Sequence[float]]:
    """Return the total seconds, and those of each transaction, which is all that clients have in flight."""
    properties = {"linger.ms": "1"} | kafka
    producer = Producer(transactional_properties(properties, unique_name("bare")))
    producer.init_transactions(_TIMEOUT_SECONDS)
    value, commits = json.dumps(_VALUE).encode(), []
    began = time.monotonic()
    for first in range(0, batches, CLIENTS * IN_FLIGHT):
        opened = time.monotonic()
        time.sleep(WINDOW_SECONDS)
        producer.begin_transaction()
        for at in range(min(CLIENTS * IN_FLIGHT, batches - first) * EVENTS):
            while True:
                try:
                    producer.produce(topic, value, f"client-{at % 2000}".encode())
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.commit_transaction(_TIMEOUT_SECONDS)
        commits.append(time.monotonic() - opened)
    return time.monotonic() - began, commits
