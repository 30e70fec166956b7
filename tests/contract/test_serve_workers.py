"""The processes that answer queries: killed when their time is over, replaced, and gone with their server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pyarrow as pa
import pytest

from serving.workers import Workers, _Starter, _Worker
from spark_jobs.hot.segment import Segment
from spark_jobs.hot.watermark import Epoch
from spark_jobs.query import worker
from spark_jobs.query.query import SqlQuery
from tests.contract.test_serve_http import ENDLESS, EVERY, LARGE, asking, refusal, tails

if TYPE_CHECKING:
    from tests.support.asked import Drained

__all__ = ["tails"]

EPOCH = Epoch("t", "t", 0, 0)
# Its first rows come at once, and the next one does not.
SLOW = "FROM range(1000000000000) r(i) WHERE i < 20000"
# None of them hears that its time is over.
DEAF = (
    "SELECT levenshtein(repeat('a', 60000), repeat('b', 60000) || i) FROM range(1000) r(i)",
    "SELECT length(lpad('', 2000000000, 'x'))",
    "SELECT list_sort(range(100000000))",
    " UNION ALL ".join(["SELECT 1"] * 50_000),
)
ENDED = {(504, "query-timeout"), (400, "query-too-large")}
ANSWER_SECONDS = 1.5  # of a query of some milliseconds, on a busy machine


def workers() -> dict[int, int]:
    """The workers there are, with what each takes that is in no file, in MiB."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            resident, shared = map(int, (folder / "statm").read_text().split()[1:3])
        except OSError:
            continue
        if parent == _Starter.get().process.pid:
            found[int(folder.name)] = (resident - shared) * os.sysconf("SC_PAGE_SIZE") >> 20
    return found


def the_one() -> int:
    """The only worker there is, once it is there and others have ended."""
    deadline = time.monotonic() + 5
    while len(found := [pid for pid, size in workers().items() if size]) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found[0]


def test_queries_that_do_not_end_are_ended_and_leave_nothing(tails: Drained) -> None:
    """Each slot is free as soon as its query's time is over, and all memory is back."""
    with asking(tails, query_timeout_seconds=2, max_queries=4) as client, ThreadPoolExecutor(4) as pool:
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        before = workers()[the_one()]

        def ask(sql: str) -> float:
            assert refusal(client.post("/v1/query", json={"sql": sql})) in ENDED
            return time.monotonic()

        began = time.monotonic()
        ends = [*pool.map(ask, DEAF)]
        assert max(ends) - began < 2 + 1
        asked = [*pool.map(lambda _: client.post("/v1/query", json={"sql": EVERY}).status_code, DEAF)]
        assert asked == [200] * 4
        after = workers()
    assert len(after) <= 4
    assert sum(after.values()) < len(after) * (before + 60)


def test_what_a_query_took_is_given_back(tails: Drained) -> None:
    """A process that has grown by its query answers no other one."""
    with asking(tails) as client:
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        pid = the_one()
        before = workers()[pid]
        for _ in range(2):
            assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert the_one() == pid
        assert client.post("/v1/query", json={"sql": LARGE}).status_code == 200
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert workers()[the_one()] < before + 60


def test_a_query_alone_has_all_memory(tails: Drained) -> None:
    """What would not do with an eighth of it is answered; beside another one there is a half."""
    with asking(tails, max_queries=8, query_memory_bytes=500_000_000) as client:
        assert client.post("/v1/query", json={"sql": LARGE}).status_code == 200
    assert [one.memory_bytes for one in sorted(Workers(4, 1200)._free)] == [1200, 600, 400, 300]


def test_a_client_that_leaves_ends_its_query(tails: Drained) -> None:
    """Before the first row and behind it: its slot is another's at once."""
    with asking(tails, query_timeout_seconds=30, max_queries=1) as client:
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/query", json={"sql": ENDLESS}, timeout=0.3)
        began = time.monotonic()
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert time.monotonic() - began < ANSWER_SECONDS
        with client.stream("POST", "/v1/query", json={"sql": SLOW, "format": "csv"}) as answer:
            assert next(answer.iter_raw())
        began = time.monotonic()
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert time.monotonic() - began < ANSWER_SECONDS


def test_a_worker_that_dies_is_replaced(tails: Drained) -> None:
    """Whose query it was is told; whoever asks next gets an answer."""
    with asking(tails, query_timeout_seconds=30, max_queries=1) as client, ThreadPoolExecutor(1) as pool:
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        process = psutil.Process(the_one())
        before = process.cpu_times().user
        asked = pool.submit(client.post, "/v1/query", json={"sql": ENDLESS})
        while process.cpu_times().user < before + 0.2:  # it has taken the query, and runs it
            time.sleep(0.01)
        process.kill()
        assert refusal(asked.result(2)) == (400, "query-too-large")
        began = time.monotonic()
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert time.monotonic() - began < ANSWER_SECONDS
        os.kill(the_one(), signal.SIGKILL)  # while it has nothing to do, and before its socket tells so
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200


def test_a_query_is_asked_again_of_a_new_worker(tails: Drained, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, where its process was gone before it took it: nobody's query took that much memory."""
    ask, asked = _Worker.ask, []

    def killed_first(one: _Worker, *given: Any) -> bool:
        asked.append(one._number)
        if len(asked) in deadly:
            one._starter.kill(one._number)
            assert one._connection is not None
            assert one._connection.poll(20)  # its socket tells so only now
        return ask(one, *given)

    monkeypatch.setattr(_Worker, "ask", killed_first)
    with asking(tails, query_timeout_seconds=30, max_queries=1) as client:
        deadly = {1}
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        deadly = {3, 4}
        assert refusal(client.post("/v1/query", json={"sql": EVERY})) == (400, "query-too-large")
    assert len({*asked}) == 3


def test_the_process_that_starts_workers_may_die(tails: Drained) -> None:
    """Killed, it is replaced; told to end with its service, it does not before its server."""
    with asking(tails, query_timeout_seconds=30, max_queries=2) as client, ThreadPoolExecutor(1) as pool:
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        starter = _Starter.get().process
        os.kill(starter.pid, signal.SIGTERM)
        asked = pool.submit(client.post, "/v1/query", json={"sql": ENDLESS, "timeout_ms": 1500})
        time.sleep(0.3)
        assert starter.poll() is None
        starter.kill()
        starter.wait()
        for _ in range(3):
            assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200
        assert refusal(asked.result(5)) == (504, "query-timeout")
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200


def test_a_worker_that_cannot_be_started_takes_no_slot(tails: Drained) -> None:
    """Whose query it would be is told why; the next one is answered."""
    with asking(tails, max_queries=1) as client:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Starter, "get", full)
            for _ in range(2):
                asked = client.post("/v1/query", json={"sql": EVERY})
                assert refusal(asked) == (503, "no-worker")
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200


def full() -> None:
    """As a disk without space."""
    raise OSError(28, "No space left on device")


def test_a_fork_that_fails_ends_its_own_query_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that forks goes on, and its files stay."""
    ours, control = socket.socketpair()
    starting = threading.Thread(target=worker._serve, args=(control, tmp_path))
    monkeypatch.setattr(os, "fork", full)
    starting.start()
    for number in (1, 2):
        one, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(ours, [worker.REQUEST.pack(number, 1 << 28)], [theirs.fileno()])
        one.settimeout(5)
        assert one.recv(1) == b""
        one.close()
    ours.close()
    starting.join(5)
    assert not starting.is_alive()


def test_one_value_is_bounded_as_well(tails: Drained) -> None:
    """A text of a gigabyte, which DuckDB counts nowhere, ends its query and not the machine."""
    with asking(tails, max_queries=1, query_memory_bytes=80_000_000) as client:
        asked = client.post("/v1/query", json={"sql": "SELECT length(repeat('x', 1000000000))"})
        assert refusal(asked) == (400, "query-too-large")
        assert client.post("/v1/query", json={"sql": EVERY}).status_code == 200


def test_a_worker_ends_when_nobody_is_left_to_kill_it(tails: Drained) -> None:
    """Two seconds behind its query's time, though who asked says nothing more."""
    prefix, pool = tails.pin("one"), Workers(1, 1 << 28)
    asked, one = SqlQuery(tails.pipelines["one"], DEAF[0]), pool._free[0]
    try:
        work = pool._work(one, asked, prefix, time.monotonic() + 0.2)
        pid = the_one()
        assert one._connection is not None
        one._connection.send(work)
        deadline = time.monotonic() + 6
        while workers().get(pid):  # none of a process that has ended
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        pool.close()


def test_an_idle_worker_maps_nothing(tails: Drained) -> None:
    """A second after its answer it has let go of what the table may have by now."""
    rows = pa.table({"_kafka_offset": pa.array(range(10), pa.int64())})
    one, pool = Segment(EPOCH, 0, 0, 10, rows, rows), Workers(1, 1 << 28)
    prefix = tails.pin("one")
    share = replace(prefix.shares[0], segments=(one,))
    asked = SqlQuery(tails.pipelines["one"], "SELECT 1")
    try:
        for _ in range(2):
            with pool.answer(asked, replace(prefix, shares=(share,)), time.monotonic() + 10, bool) as answer:
                assert len([*answer.batches]) == 1
        assert is_mapping(the_one())
        time.sleep(1.5)
        assert not is_mapping(the_one())
    finally:
        pool.close()


def is_mapping(pid: int) -> bool:
    """True if the process maps segments."""
    return "/segments-" in Path(f"/proc/{pid}/maps").read_text()


def test_workers_are_started_clean() -> None:
    """Who they are forked from has one thread, and none of the server's files."""
    one = _Worker(1 << 28)
    one.start()
    try:
        starter = Path("/proc") / str(_Starter.get().process.pid)
        assert "Threads:\t1\n" in (starter / "status").read_text()
        held = [str(each.readlink()) for each in (starter / "fd").iterdir()]
        assert len([each for each in held if each.startswith("socket:")]) == 1
    finally:
        one.kill()


def test_nothing_of_a_server_outlives_it() -> None:
    """Killed as it may be: its workers and the files that they map are gone."""
    script = (
        "from serving.workers import Workers, _Starter\n"
        "workers = Workers(2, 1 << 28)\n"
        "workers._free[0].start()\n"
        "print(_Starter.get().process.pid, _Starter.get().folder, flush=True)\n"
        "input()\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    pid, folder = server.stdout.readline().split()
    assert Path(folder).exists()
    server.kill()
    server.communicate()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() or Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
