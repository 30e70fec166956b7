"""A real gateway over a real broker: events of clients are in the table, each once, in order."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pyiceberg.expressions import EqualTo
from websockets.sync.client import connect

from docs.clients.gateway_client import GatewayClient
from gateway import writer as writer_module
from gateway.lane import Lane
from gateway.messages import Batch, Event
from gateway.spool import Spool
from gateway.topics import Outgoing, Owner, Stand, StreamTopics
from gateway.writer import Writer
from prove.lab.gateway_process import taking_events
from prove.lab.pipeline_lab import make_lab
from prove.lab.slow_uplink import slow_uplink
from spark_jobs.checks.facts import SourceEvents
from spark_jobs.config.gateway import MemorySettings
from spark_jobs.monitoring import source_events as source_events_module
from spark_jobs.monitoring.checkup import check_up
from spark_jobs.monitoring.source_events import source_events
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.query.query import query
from tests.support.gateway_server import eventually
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

TOKEN = "hunter2-Tr0ub4dor-and-3"
BY_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
AS_JSON = {"Content-Type": "application/json"}
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "gateway.md").read_text()
(SQL,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def test_what_a_client_sends_is_in_the_table_once(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over WebSocket and by POST, with repeats, over a death; told when it is in the table."""
    lab = new_lab(partitions=2)
    lines = [f"{hashlib.sha256(TOKEN.encode()).hexdigest()} orders - - -", f"{'0' * 64} * - - -"]
    with taking_events(lab, tokens=lines) as gateway:
        client = GatewayClient(gateway.socket, "browser-1", TOKEN, most=10, seconds=0.1)
        for number in range(95):
            client.send({"key": f"k{number % 7}", "value": {"id": number}})
        client.close()
        with connect(gateway.socket, additional_headers=BY_TOKEN, proxy=None) as socket:

            def ask(message: dict[str, Any]) -> dict[str, Any]:
                socket.send(json.dumps(message))
                return dict(json.loads(socket.recv(30)))

            capabilities = ["binary", "batching", "persisted"]
            status = ask({"type": "connect", "sourceId": "browser-1", "capabilities": capabilities})
            assert status["lastAckSequence"] == 10
            granted = {"binary": "unsupported", "batching": "supported", "persisted": "supported"}
            assert status["capabilities"] == granted
            last = [{"key": f"k{number % 7}", "value": {"id": number}} for number in range(90, 95)]
            again = {"type": "cdc_batch", "sequenceNumber": 10, "events": last}
            assert ask(again)["status"] == "duplicate"
            ahead = ask({**again, "sequenceNumber": 12})
            assert (ahead["reason"], ahead["details"]["expected"]) == ("invalid_sequence", 11)
            pong = {"type": "pong", "timestamp": 7, "lastAckSequence": 10}
            assert ask({"type": "heartbeat", "timestamp": 7}) == pong
            assert ask({**again, "sequenceNumber": 11, "events": [{"value": {"id": 95}}]})["status"] == "ok"
            lab.drain()
            assert json.loads(socket.recv(30))["status"] == "persisted"
        assert httpx.post(gateway.url, json=[]).status_code == 401
        other = gateway.url.replace("/orders", "/others")
        assert httpx.post(other, json=[], headers=BY_TOKEN).status_code == 404
        foreign = {**BY_TOKEN, "Origin": "https://evil.example"}
        assert httpx.post(gateway.url, json=[], headers=foreign).status_code == 403
        asked = {"sourceId": "job", "batchId": "b1"}
        posted = httpx.post(gateway.url, params=asked, json=[{"value": {"id": 96}}], headers=BY_TOKEN)
        assert (posted.status_code, posted.json()["eventsProcessed"]) == (200, 1)
        large = httpx.post(gateway.url, content=b" " * (2 << 20), headers={**BY_TOKEN, **AS_JSON})
        assert (large.status_code, large.json()["error"]["reason"]) == (413, "invalid_format")
        gateway.kill()
        gateway.start()
        gateway.wait()
        posted = httpx.post(gateway.url, params=asked, json=[{"value": {"id": 96}}], headers=BY_TOKEN)
        assert (posted.status_code, posted.json()["status"]) == (200, "duplicate")
        lines = httpx.post(
            gateway.url,
            params={"sourceId": "job"},
            content=b'{"value": {"id": 97}}\n{"value": {"id": 98}}\n',
            headers={**BY_TOKEN, "Content-Type": "application/x-ndjson"},
        )
        assert lines.json()["eventsProcessed"] == 2
        told = httpx.get(gateway.url.replace("/v1/streams/orders", "/metrics"), headers=BY_TOKEN).text
        assert 'sluice_gateway_events_total{stream="orders"} 2.0' in told
        assert gateway.stop() == ""
    lab.drain()
    assert sorted(row["id"] for row in lab.rows().to_pylist()) == list(range(99))
    with (
        lab.connections() as connections,
        query(lab.pipeline, connections, SQL.replace("FROM t)", "FROM orders)")) as answer,
    ):
        assert [batch.num_rows for batch in answer.batches if batch.num_rows] == []
    _its_events_are_judged(lab, monkeypatch)


def _its_events_are_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.connections() as connections:
        assert source_events(lab.pipeline, connections, 10**6) == SourceEvents(99, 0, 0)
        assert source_events(lab.pipeline, connections, 20).gaps == 0
        row = lab.table().scan(row_filter=EqualTo("id", 5)).to_arrow()
        lab.table().append(row, snapshot_properties={"sluice.attempt": "a defect"})
        doubled = source_events(lab.pipeline, connections, 10**6)
        assert (doubled.doubles, doubled.examples) == (1, ("source 'browser-1': 0 missing, 1 duplicated",))
        lab.table().delete(EqualTo("id", 5), snapshot_properties={"sluice.attempt": "a defect"})
        # What may be under way is no gap, until the table is known to have all of that time.
        assert source_events(lab.pipeline, connections, 10**6).gaps == 0
        monkeypatch.setattr(source_events_module, "_UNSURE_MS", 0)
        assert source_events(lab.pipeline, connections, 10**6).gaps == 1
    (health,) = check_up(Surveyor(lab.config))
    assert {"spool", "source_events"} <= {result.name for result in health.results if result.passed}


def mirror_of(lab: Lab, new_lab: NewLab) -> Lab:
    """Another pipeline over the same topic, whose table has one live row a key."""
    folder = new_lab.folder / "mirror"
    folder.mkdir()
    settings = {"layout": "mirror", "cdc": {"envelope": "sluice"}}
    kafka, topic = str(new_lab.kafka), lab.pipeline.topic
    return make_lab(folder, bootstrap=kafka, topic=topic, spark_remote=None, **settings)


def live(mirror: Lab) -> list[tuple[int, str]]:
    """The rows of a mirror, by PyIceberg's own reader."""
    rows = mirror.table().scan().to_arrow().to_pylist()
    return sorted((row["id"], row["text"]) for row in rows)


def test_a_browser_keeps_a_table_of_changes(new_lab: NewLab) -> None:
    """Of events with operations: each as a row, or one live row a key, drain after drain; too much waits."""
    settings = {"layout": "changes", "cdc": {"envelope": "sluice"}}
    lab = new_lab(**settings)
    mirror = mirror_of(lab, new_lab)
    by_tab: dict[str, Any] = {"params": {"sourceId": "tab"}, "headers": BY_TOKEN}
    events = [
        {"operation": "c", "key": {"id": 1}, "value": {"id": 1, "text": "a"}, "timestamp": 1_000},
        {"operation": "u", "key": {"id": 1}, "value": {"id": 1, "text": "b"}},
        {"operation": "d", "key": {"id": 1}},
    ]
    limited = f"{hashlib.sha256(TOKEN.encode()).hexdigest()} * 100 - -"
    with taking_events(lab, stream={"envelope": "sluice"}, tokens=limited) as gateway:
        sent = [httpx.post(gateway.url, **by_tab, json=events) for _ in range(2)]
        assert [each.status_code for each in sent] == [200, 200]
        mirror.drain()
        assert live(mirror) == []
        many = [
            {"operation": "u", "key": {"id": 2 + n % 2}, "value": {"id": 2 + n % 2, "text": str(n)}}
            for n in range(200)
        ]
        assert httpx.post(gateway.url, **by_tab, json=many).status_code == 200
        late = httpx.post(gateway.url, **by_tab, json=events)
        assert (late.status_code, late.headers["Retry-After"]) in {(429, "1"), (429, "2")}
        mirror.drain()
        assert live(mirror) == [(2, "198"), (3, "199")]
        gateway.stop()
        gateway.start()
        gateway.wait()  # its buckets are full again
        changes = [
            {"operation": "d", "key": {"id": 2}},
            {"operation": "u", "key": {"id": 3}, "value": {"id": 3, "text": "b"}},
            {"operation": "c", "key": {"id": 1}, "value": {"id": 1, "text": "c"}},
        ]
        assert httpx.post(gateway.url, **by_tab, json=changes).status_code == 200
    mirror.drain()
    assert live(mirror) == [(1, "c"), (3, "b")]
    assert mirror.audit().is_clean
    lab.drain()
    rows = sorted(lab.rows().to_pylist(), key=lambda row: row["_kafka_offset"])[:3]
    assert [(row["_cdc_operation"], row["_cdc_row_id"], row["id"], row["text"]) for row in rows] == [
        ("c", '{"id":1}', 1, "a"),
        ("u", '{"id":1}', 1, "b"),
        ("d", '{"id":1}', 1, None),
    ]
    assert [row["_cdc_sequence"] for row in rows] == [row["_kafka_offset"] for row in rows]
    assert rows[0]["_cdc_timestamp"] == datetime.fromtimestamp(1, UTC)
    assert lab.audit().is_clean


def test_a_spool_drains_by_a_slow_uplink(new_lab: NewLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a megabyte a second: two of them are given more time than a broker that says nothing."""
    monkeypatch.setattr(writer_module, "ANSWER_SECONDS", 1.0)
    lab, dice = new_lab(), random.Random(1)
    spool = Spool(lab.path.parent / "spool.db", 1 << 30)
    noise = [base64.b64encode(dice.randbytes(375_000)) for _ in range(4)]
    batches = [Batch("s", (Event(None, each),), len(each), at) for at, each in enumerate(noise, 1)]
    topic = lab.pipeline.topic
    spool.put(topic, 0, batches)
    with lab.connections() as connections, slow_uplink(str(new_lab.kafka), 1e6) as (far, uplink):
        kafka = {**connections.kafka, "bootstrap.servers": far}
        topics = StreamTopics(kafka, connections.admin, topic, 0)
        writer = Writer(topics, 0, Owner("http://here", "a"), connections.fail_points.reach, 1 << 20)
        memory = MemorySettings()
        lane = Lane(
            writer, spool, (topic, 0), ids_seconds=0, memory=memory, reach=lambda _: None, on_end=list
        )
        lane.start()
        deadline = time.monotonic() + 60
        while spool.size().batches:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert topics.stands(0)["s"].sequence == 4
        assert uplink.sent < 6e6
        lane.intake.close()
        lane.join()
    spool.close()


def test_a_gateway_that_was_cut_off_takes_nothing_back(new_lab: NewLab) -> None:
    """Of two that are both alive the later one has the slot, though the earlier one asks for it again."""
    lab = new_lab()
    with lab.connections() as connections:
        topics = StreamTopics(connections.kafka, connections.admin, lab.pipeline.topic, 0)
        reach = connections.fail_points.reach
        earlier, later = (Writer(topics, 0, Owner("http://here", name), reach) for name in ("a", "b"))
        earlier.open()
        earlier.write([Outgoing(None, b"{}")], {"s": Stand().after(b"eight by", 1)})
        earlier.close()
        assert later.open()[0] == {"s": Stand(1, 1, b"eight by")}
        # Kafka shows what was committed a moment after it says so.
        eventually(lambda: topics.owner(0) == Owner("http://here", "b"))
        with pytest.raises(CommitConflict, match="gateway-fenced"):
            earlier.open()
        later.write([], {"s": Stand(2, 1)})
        assert topics.stands(0) == {"s": Stand(2, 1)}
        for each in (earlier, later):
            each.close()
