"""The jar locks and the cache they fill."""

from __future__ import annotations

import hashlib
import http.server
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from servers.jars import RUNTIME_LOCK, Jar, fetch, missing, read_lock
from spark_jobs.protocol.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
TEST_LOCK = PROJECT / "prove" / "lab" / "jars-test.lock"
BENCH_LOCK = PROJECT / "bench" / "jars-connect.lock"
CONTENT = b"a jar" * 1000


class _Repository(http.server.BaseHTTPRequestHandler):
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        found = self.path.endswith("thing-1.0.jar")
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(CONTENT)) if found else "0")
        self.end_headers()
        if found:
            self.wfile.write(CONTENT)

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A Maven mirror that has one file, and an empty cache; yields the paths that were asked for."""
    handler = type("Handler", (_Repository,), {"requests": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("SLUICE_MAVEN_MIRROR", f"http://127.0.0.1:{server.server_port}/mirror/")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield handler.requests
    server.shutdown()
    server.server_close()


def _jar(name: str = "thing", content: bytes = CONTENT) -> Jar:
    return Jar("org.example", name, "1.0", None, hashlib.sha256(content).hexdigest(), "some", len(CONTENT))


def test_locks_name_every_file_once() -> None:
    """A file name stands for one content in all locks, so that all sets share one cache folder."""
    contents: dict[str, str] = {}
    for jar in read_lock(RUNTIME_LOCK) + read_lock(TEST_LOCK) + read_lock(BENCH_LOCK):
        assert contents.setdefault(jar.file_name, jar.sha256) == jar.sha256
        assert len(jar.sha256) == 64
        assert jar.size_bytes > 0


def test_locks_hold_the_sets() -> None:
    """Every set the code asks for is there, and no line carries an address."""
    assert {jar.set_name for jar in read_lock(RUNTIME_LOCK)} == {
        *("kafka", "spark", "spark-s3", "spark-gcs", "spark-postgres", "registry")
    }
    sets = {"rest", "nessie", "flight", "debezium"}
    assert {jar.set_name for jar in read_lock(TEST_LOCK)} == sets
    assert {jar.set_name for jar in read_lock(BENCH_LOCK)} == {"connect"}
    assert "//" not in RUNTIME_LOCK.read_text() + TEST_LOCK.read_text() + BENCH_LOCK.read_text()


def test_fetch_asks_the_mirror_once(repository: list[str], tmp_path: Path) -> None:
    """Two fetches at once download a file once, from the mirror, and leave nothing else behind."""
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(fetch, [(_jar(),), (_jar(),)]))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0].read_bytes() == CONTENT
    assert repository == ["/mirror/org/example/thing/1.0/thing-1.0.jar"]
    assert not missing([_jar()])
    assert sorted(path.name for path in (tmp_path / "sluice/jars").iterdir()) == [".lock", "thing-1.0.jar"]


def test_fetch_reports_every_byte(repository: list[str]) -> None:
    """Progress ends at the total."""
    steps: list[tuple[int, int]] = []
    fetch((_jar(),), lambda done, total, _name: steps.append((done, total)))
    assert steps[-1] == (len(CONTENT), len(CONTENT))


def test_a_wrong_file_is_refused(repository: list[str]) -> None:
    """A file with another checksum is an error that names the mirror, and is not kept."""
    wrong = _jar(content=b"other")
    with pytest.raises(ConfigError, match="differs from the locked one") as caught:
        fetch((wrong,))
    assert caught.value.code == "jar-checksum"
    assert missing([wrong])


def test_a_missing_file_is_a_retryable_error(repository: list[str]) -> None:
    """A repository without the file is named with its answer, after bounded attempts."""
    with pytest.raises(RetryableError, match="HTTP 404"):
        fetch((_jar("other"),))
    assert len(repository) == 3
