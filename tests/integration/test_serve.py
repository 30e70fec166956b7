"""A real `./sluice serve`: a record is seen before its drain and after it, once, by whoever asks it how."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyarrow import flight

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure, orders
from servers.process import free_ports
from serving.flight_statement import packed
from tests.support.certificates import Certificates, make_certificates
from tests.support.forked_command import run_forked
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

TOKEN = "hunter2-Tr0ub4dor-and-3"
SECONDS = 30.0
STOP_SECONDS = 10.0
ENDLESS = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"
COUNT = "SELECT count(*) AS n, count(DISTINCT _kafka_offset) AS d, max(id) AS newest FROM orders"


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


@contextmanager
def serving(lab: Lab, url: str, certificates: Certificates) -> Iterator[tuple[httpx.Client, list[str]]]:
    """A client of a real process, and what that had said when it ended."""
    command = [sys.executable, "-m", "cli", "serve", "--config", str(lab.path)]
    temporary = lab.path.parent / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=lab.path.parent,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    told: list[str] = []
    assert process.stdout is not None
    try:
        while not told or not told[-1].startswith("answering"):
            told.append(process.stdout.readline())
            assert told[-1]
        assert told[-1] == f"answering at {url}\n"
        trusted = ssl.create_default_context(cafile=str(certificates.ca))
        with httpx.Client(base_url=url, trust_env=False, verify=trusted, timeout=SECONDS) as client:
            client.headers["Authorization"] = f"Bearer {TOKEN}"
            yield client, told
    finally:
        process.terminate()
        try:
            assert process.wait(STOP_SECONDS) == 0
        finally:
            process.kill()
        told += process.stdout  # which ends with the last process that has it
    assert not [*temporary.iterdir()]


def sluice(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command."""
    return run_forked(
        (*arguments, "--config", str(lab.path)),
        cwd=lab.path.parent,
        environment=os.environ,
        timeout_seconds=60,
    )


def by_flight(at: str, certificates: Certificates, sql: str) -> flight.FlightStreamReader:
    """Ask over Flight SQL."""
    asked = flight.FlightDescriptor.for_command(packed("CommandStatementQuery", query=sql))
    headers = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    client = flight.connect(f"grpc+tls://{at}", tls_root_certs=certificates.ca.read_bytes())
    return client.do_get(client.get_flight_info(asked, headers).endpoints[0].ticket, headers)


def until_ready(client: httpx.Client) -> None:
    """Wait until everything that was there is shown."""
    deadline = time.monotonic() + SECONDS
    while client.get("/readyz").status_code != 200:
        assert time.monotonic() < deadline, client.get("/v1/pipelines").text
        time.sleep(0.05)


def test_a_record_is_there_before_its_drain_and_after_it_once(new_lab: NewLab, kafka: KafkaBroker) -> None:
    """By HTTP, by the commands that ask it, and by those that read themselves once it is gone."""
    lab = new_lab([Record(value, key=b"k1") for value in orders(0, 5)], hot=True)
    lab.drain()
    certificates = make_certificates(lab.path.parent / "certificates")
    listen, at = (f"127.0.0.1:{port}" for port in free_ports(2))
    settings = {"listen": listen, "flight": at, "tokens": [TOKEN], "tls": {"cert": str(certificates.server)}}
    configure(lab, "", {"serve": settings})
    with ExitStack() as stack, serving(lab, f"https://{listen}", certificates) as (client, told):
        until_ready(client)

        def asked(**body: Any) -> dict[str, Any]:
            answer = client.post("/v1/query", json={"sql": COUNT, **body})
            assert answer.status_code == 200, answer.text
            return dict(answer.json())

        assert asked()["rows"] == [[5, 5, 4]]
        new_lab.produce(lab, [Record(value, key=b"k2") for value in orders(5, 1)])
        before = asked(after={"0": 5})
        assert before["rows"] == [[6, 6, 5]]
        assert before["watermark"] == "1.0/0:6"
        hot = client.get("/v1/pipelines/orders/lookup", params={"key": "k2"}).json()
        assert [row[0] for row in hot["rows"]] == [5]
        by_command = sluice(lab, "query", "orders", COUNT, "--after", "0:5", "--json")
        assert json.loads(by_command.stdout) == before, by_command.stderr
        lab.drain()
        assert asked()["rows"] == [[6, 6, 5]]
        assert by_flight(at, certificates, COUNT).read_all().to_pylist() == [{"n": 6, "d": 6, "newest": 5}]
        never_taken = by_flight(at, certificates, "FROM range(10000000000)")
        assert len(never_taken.read_chunk().data)
        assert asked(at="1.0/0:5")["rows"] == [[5, 5, 4]]
        found = sluice(lab, "lookup", "orders", "k2", "--fresh", "--json")
        assert [row[0] for row in json.loads(found.stdout)["rows"]] == [5]
        other = sluice(lab, "query", "orders", COUNT, "--at", "1.9/0:5")
        assert (other.returncode, other.stdout, "#other-epoch" in other.stderr) == (65, "", True), (
            other.stderr
        )
        late = client.post("/v1/query", json={"sql": COUNT, "after": {"0": 99}, "timeout_ms": 100})
        assert (late.status_code, late.json()["code"]) == (504, "not-yet")
        seen = json.loads(sluice(lab, "status", "--json").stdout)["followed"]
        assert [(each["pipeline"], each["state"], each["watermark"]) for each in seen] == [
            ("orders", "live", "1.0/0:6")
        ]
        told_of = client.get("/metrics").text
        assert 'sluice_queries_total{outcome="answered",pipeline="orders"} 8.0' in told_of
        configure(lab, "serve", {"tokens": [f"{TOKEN}-of-another"]})
        refused = sluice(lab, "query", "orders", COUNT, "--fresh")
        assert (refused.returncode, "#serve-away" in refused.stderr) == (75, True), refused.stderr
        # What runs when it is told to stop is ended, and so is who waits; all leave nothing behind.
        pool = stack.enter_context(ThreadPoolExecutor(9))
        for body in (*[{"sql": ENDLESS}] * 8, {"sql": COUNT, "after": {"0": 99}}):
            pool.submit(httpx.Client.post, client, "/v1/query", json=body)
        time.sleep(1)
    assert any("orders: live" in line for line in told)
    by_itself = sluice(lab, "query", "orders", COUNT, "--fresh", "--json")
    assert json.loads(by_itself.stdout)["rows"] == [[6, 6, 5]]
