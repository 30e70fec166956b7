"""Queries over HTTP: the answers of the query room, its limits, and every refusal as JSON."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx
import pyarrow as pa
import pytest
from starlette.requests import ClientDisconnect

from serving import http_api
from serving.service import QueryService
from spark_jobs.config.listener import ServeSettings
from spark_jobs.config.secrets import remember
from spark_jobs.hot.tail_status import State, TailStatus
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import ConfigError, RetryableError, SourceChanged
from tests.support.asked import LAKE_ID, Drained, answering
from tests.support.lake import Lake
from tests.support.recovery_scene import make_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 30
TOKEN = "hunter2-Tr0ub4dor-and-3"
ENDLESS = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"
LARGE = "SELECT len(list(i)) FROM range(20000000) AS a(i)"
LONG = "FROM range(10000000000)"
EVERY = "SELECT id, name FROM t ORDER BY id"


@pytest.fixture
def tails(sqlite_lake: Lake, tmp_path: Path) -> Drained:
    """Two pipelines over one table of 29 rows and a dead letter."""
    scene = make_scene(sqlite_lake, str(tmp_path / "state"))
    scene.lake.drain(0, ROWS, dead_letters=[12])
    pipelines = {name: scene.pipeline.model_copy(update={"name": name}) for name in ("one", "other")}
    return Drained(pipelines, scene.connections)


@contextmanager
def asking(
    tails: Drained, *names: str, tokens: tuple[str, ...] = (), **settings: Any
) -> Iterator[httpx.Client]:
    """A client of a server of these pipelines."""
    served = [tails.pipelines[name] for name in names or ("one",)]
    service = QueryService(served, tails.connections, tails, ServeSettings(**settings))
    with answering(service, tokens=tokens) as client:
        yield client


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """The status and code of what was refused with a hint."""
    told = answer.json()
    assert told["hint"]
    return answer.status_code, told["code"]


def test_an_answer_is_json_csv_or_arrow_and_says_which_records_it_has(tails: Drained) -> None:
    """The same rows each time, and the watermark in the header, in JSON and in SQL."""
    with asking(tails) as client:
        as_json = client.post("/v1/query", json={"sql": EVERY})
        as_csv = client.post("/v1/query", json={"sql": EVERY, "format": "csv"})
        as_arrow = client.post("/v1/query", json={"sql": EVERY, "format": "arrow"})
        marked = client.post("/v1/query", json={"sql": "SELECT end_offset FROM sluice_watermark"}).json()
        letters = client.post("/v1/query", json={"sql": "SELECT _kafka_offset FROM dead_letters"}).json()
        nothing = client.post("/v1/query", json={"sql": "FROM t WHERE false", "format": "arrow"})
    expected = [[number, f"n{number}"] for number in range(ROWS) if number != 12]
    assert as_json.json()["rows"] == expected
    assert [column["name"] for column in as_json.json()["columns"]] == ["id", "name"]
    assert as_json.json()["watermark"] == "0.0/0:30" == as_json.headers["Sluice-Watermark"]
    assert list(csv.reader(io.StringIO(as_csv.text)))[1:] == [
        [str(number), name] for number, name in expected
    ]
    table = pa.ipc.open_stream(as_arrow.content).read_all()
    assert [list(row.values()) for row in table.to_pylist()] == expected
    assert (marked["rows"], letters["rows"]) == ([[30]], [[12]])
    assert pa.ipc.open_stream(nothing.content).read_all().num_rows == 0
    assert as_csv.headers["Sluice-Watermark"] == as_arrow.headers["Sluice-Watermark"] == "0.0/0:30"


def test_requests_that_are_not_answered_say_why(tails: Drained) -> None:
    """Whose matter it is by the status; which error by its code; nothing else within reach of the SQL."""
    with asking(tails, "one", "other") as client:

        def asked(**body: Any) -> tuple[int, str]:
            return refusal(client.post("/v1/query", json={"pipeline": "one", "sql": EVERY, **body}))

        assert asked(sql="SELECT nme FROM t") == (400, "query-refused")
        assert asked(sql="FROM read_text('/etc/passwd')") == (400, "query-refused")
        assert asked(pipeline=None) == (400, "which-pipeline")
        assert asked(pipeline="another") == (404, "not-served")
        for wrong in (
            {"format": "xml"},
            {"limit": 3},
            {"timeout_ms": 0},
            {"timeout_ms": 10**400},
            {"timeout_ms": 1 << 63},
            {"after": {"0": 10**400}},
            {"after": {"x": 1}},
            {"sql": "x" * 2**20},
        ):
            assert asked(**wrong) == (400, "unreadable-request"), wrong
        assert asked(at="1.0/0:5", after={"0": 4}) == (400, "unreadable-request")
        assert asked(at="1.0/0:1" + "0" * 5000) == (400, "unreadable-watermark")
        assert asked(at="yesterday") == (400, "unreadable-watermark")
        raises = {
            (404, "no-table-yet"): ConfigError("-", code="no-table-yet", hint="-"),
            (409, "topic-recreated"): SourceChanged("-", code="topic-recreated", hint="-"),
            (504, "not-yet"): RetryableError("-", code="not-yet", hint="-"),
            (503, "catalog-unavailable"): RetryableError("-", code="catalog-unavailable", hint="-"),
        }
        for expected, reason in raises.items():
            tails.states["one"] = TailStatus("one", State.FAILED, reason=reason)
            assert asked() == expected
        remember("s3cr3t-of-the-catalog")
        away = RetryableError("http://u:s3cr3t-of-the-catalog@c", code="catalog-unavailable", hint="-")
        tails.states["one"] = TailStatus("one", State.FAILED, reason=away)
        for shown in (
            client.post("/v1/query", json={"pipeline": "one", "sql": EVERY}),
            client.get("/v1/pipelines"),
        ):
            assert "catalog-unavailable" in shown.text
            assert "s3cr3t" not in shown.text
        assert client.post("/v1/query", json={"pipeline": "other", "sql": EVERY}).status_code == 200
        assert refusal(client.get("/v1/tables")) == (404, "http-404")
        assert refusal(client.get("/v1/pipelines/one/lookup")) == (400, "unreadable-request")
        assert refusal(client.get("/v1/pipelines/two/lookup", params={"key": "7"})) == (404, "not-served")
        elsewhere = client.post("/v1/query", json={"sql": EVERY}, headers={"Sluice-Lake": "another"})
        assert refusal(elsewhere) == (404, "not-served")
        ours = client.post(
            "/v1/query", json={"sql": EVERY, "pipeline": "other"}, headers={"Sluice-Lake": LAKE_ID}
        )
        assert ours.status_code == 200


def test_an_answer_is_kept_by_nobody_and_for_no_other_lake(tails: Drained) -> None:
    """No proxy may give it to the next who asks; rows of a key are refused to a stranger as SQL is."""
    at = "/v1/pipelines/one/lookup"
    with asking(tails, "one", "other") as client:
        for answer in (
            client.post("/v1/query", json={"sql": EVERY, "pipeline": "one"}),
            client.get(at, params={"key": "7"}),
            client.get("/v1/pipelines"),
        ):
            assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
        for stranger in (
            client.get(at, params={"key": "7"}, headers={"Sluice-Lake": "another"}),
            client.get("/v1/pipelines", headers={"Sluice-Lake": "another"}),
        ):
            assert refusal(stranger) == (404, "not-served")


def test_what_nobody_foresaw_is_told_without_secrets() -> None:
    """A driver's error may quote an address with its password."""
    remember("s3cr3t-of-a-driver")
    nobody: Any = None
    error = RuntimeError("postgres://me:s3cr3t-of-a-driver@db")
    told = bytes(anyio.run(http_api._unexpected, nobody, error).body).decode()
    assert "unexpected RuntimeError: postgres://me:***@db" in told


def test_a_query_is_ended_when_its_time_is_over(tails: Drained) -> None:
    """Before its first row by an error, behind it by a connection that breaks off: no part looks whole."""
    with asking(tails, query_timeout_seconds=60) as client:
        began = time.monotonic()
        asked = client.post("/v1/query", json={"sql": ENDLESS, "timeout_ms": 200})
        assert refusal(asked) == (504, "query-timeout")
        assert time.monotonic() - began < 30
    with asking(tails, query_timeout_seconds=1) as client:
        assert refusal(client.post("/v1/query", json={"sql": ENDLESS, "timeout_ms": 600_000}))[0] == 504
        for written in ("json", "csv", "arrow"):
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                client.post("/v1/query", json={"sql": LONG, "format": written})
        told = client.get("/metrics").text
        assert 'sluice_queries_total{outcome="query-timeout",pipeline="one"} 4.0' in told


def test_more_queries_than_may_run_are_refused_and_none_holds_its_place(
    tails: Drained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a short wait; clients that went away, or take nothing of their answers, hold none for long."""
    monkeypatch.setattr(http_api, "_SEND_SECONDS", 0.1)
    with asking(tails, query_timeout_seconds=2, max_queries=2) as client, ThreadPoolExecutor(3) as pool:

        def ask(_: int) -> tuple[int, str]:
            return refusal(client.post("/v1/query", json={"sql": ENDLESS}))

        answers = sorted(pool.map(ask, range(3)))
        assert answers == [(429, "too-many-queries"), (504, "query-timeout"), (504, "query-timeout")]
        for _ in range(4):
            with client.stream("POST", "/v1/query", json={"sql": LONG}) as answer:
                assert answer.status_code == 200
        with ExitStack() as stack:
            for _ in range(2):
                body = {"sql": LONG, "format": "arrow"}
                stack.enter_context(client.stream("POST", "/v1/query", json=body))
            assert client.post("/v1/query", json={"sql": EVERY}).status_code == 429
            time.sleep(2)
            assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert 'sluice_queries_total{outcome="left",pipeline="one"} 6.0' in client.get("/metrics").text


def test_an_answer_that_nobody_took_the_beginning_of_is_closed() -> None:
    """Its query ends where its client was gone before a byte was sent."""
    closed: list[bool] = []

    async def gone(_message: Any = None) -> Any:
        raise OSError

    stack = ExitStack()
    stack.callback(closed.append, True)
    response = http_api._AnswerResponse(stack, iter(()), threading.Event(), 1, {})
    with pytest.raises(ClientDisconnect):
        anyio.run(response, {"type": "http", "asgi": {"spec_version": "2.4"}}, gone, gone)
    assert closed


def test_a_query_has_its_part_of_memory(tails: Drained) -> None:
    """What does not go into it, nor into a folder, is refused by name."""
    with asking(tails, query_memory_bytes=80_000_000, max_queries=4) as client:
        assert refusal(client.post("/v1/query", json={"sql": LARGE})) == (400, "query-too-large")


def test_a_snapshot_that_expired_under_a_query_is_pinned_again_once(tails: Drained) -> None:
    """When no row was sent; a table that stays unreadable is an error."""
    real = tails.pin
    gone = 1

    def pin(pipeline: str, **how: Any) -> Any:
        nonlocal gone
        prefix = real(pipeline, **how)
        if gone <= 0:
            return prefix
        gone -= 1
        metadata = prefix.seam.table.metadata.model_copy(deep=True)
        snapshot = metadata.current_snapshot()
        assert snapshot is not None
        metadata.snapshots[-1] = snapshot.model_copy(update={"manifest_list": "/gone"})
        table = replace_metadata(prefix.seam.table, metadata)
        return replace(prefix, seam=replace(prefix.seam, table=table))

    tails.pin = pin  # type: ignore[method-assign]
    with asking(tails) as client:
        assert len(client.post("/v1/query", json={"sql": EVERY}).json()["rows"]) == ROWS - 1
        assert len(tails.pinned) == 2
        gone = 9
        assert refusal(client.post("/v1/query", json={"sql": EVERY})) == (503, "table-unreadable")
        assert len(tails.pinned) == 4


def replace_metadata(table: Any, metadata: Any) -> Any:
    """The table with other metadata."""
    return type(table)(table._identifier, metadata, table.metadata_location, table.io, table.catalog)


def test_who_asks_sees_how_far_each_pipeline_is(tails: Drained) -> None:
    """Ready once every one was live or failed; a reason has its hint; so do Prometheus and the page."""
    with asking(tails, "one", "other") as client:
        assert (client.get("/healthz").status_code, client.get("/readyz").status_code) == (200, 200)
        tails.states["one"] = TailStatus("one", State.CATCHING_UP, Watermark(1, 0, {0: 7, 1: 2}), 4, 99, 1500)
        waiting = client.get("/readyz")
        assert (waiting.status_code, waiting.json()) == (503, {"waiting_for": ["one"]})
        reason = SourceChanged("other records", code="topic-recreated", hint="accept it")
        tails.states["other"] = TailStatus("other", State.FAILED, reason=reason)
        one, other = client.get("/v1/pipelines").json()["pipelines"]
        assert (one["state"], one["watermark"], one["ends"]) == (
            "catching-up",
            "1.0/0:7,1:2",
            {"0": 7, "1": 2},
        )
        assert (one["hot_rows"], one["hot_bytes"], one["age_ms"], one["reason"]) == (4, 99, 1500, None)
        assert (other["reason"]["code"], other["reason"]["hint"]) == ("topic-recreated", "accept it")
        told = client.get("/metrics").text
        assert 'sluice_hot_state{pipeline="one",state="catching-up"} 1.0' in told
        assert 'sluice_hot_age_seconds{pipeline="one"} 1.5' in told
        tails.states["one"] = TailStatus("one", State.BLOCKED, is_ready=True)
        assert client.get("/readyz").status_code == 200


def test_foreign_pages_and_those_without_a_token_are_turned_away(tails: Drained) -> None:
    """In the words of all other refusals; the page may run nothing but its own script."""
    with asking(tails, tokens=(TOKEN,)) as client:
        body = json.dumps({"sql": EVERY})
        assert refusal(client.post("/v1/query", json={"sql": EVERY})) == (401, "http-401")
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        plain = client.post("/v1/query", content=body, headers={"Content-Type": "text/plain"})
        assert refusal(plain) == (415, "http-415")
        foreign = client.post("/v1/query", json={"sql": EVERY}, headers={"Origin": "https://evil.example"})
        assert refusal(foreign) == (403, "http-403")
        assert refusal(client.get("/", headers={"Host": "evil.example"})) == (403, "http-403")
        policy = client.get("/").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
