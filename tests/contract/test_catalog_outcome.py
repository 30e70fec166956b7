"""What a catalog answers is no proof: the outcome of a commit is read back from the table."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, ServerError, UnauthorizedError, ValidationError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import write_manifest, write_manifest_list
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema

from prove.lab import fault_proxy
from prove.lab.fault_proxy import Fault, FaultProxy, is_table_commit
from prove.lab.http_proxy import HttpProxy, Response
from spark_jobs.acts.act import pause
from spark_jobs.commit import swap as landing
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.swap import land
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake import rest_catalog, sql_catalog
from spark_jobs.lake.catalog import close_catalog, open_catalog
from spark_jobs.lake.tables import load_table
from spark_jobs.protocol.errors import CommitStateUnknown, ConfigError, RetryableError, SluiceError
from spark_jobs.protocol.work import NoFailPoints
from spark_jobs.schema.declared import check_declared
from tests.contract.conftest import REST
from tests.support.lake import Access, Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from prove.lab.http_proxy import Client, Request
    from spark_jobs.commit.swap import CatalogAccess, Swap
    from spark_jobs.connections.connect import Connections

LANDED = [
    Fault.LANDED_409,
    Fault.LANDED_TWICE,
    Fault.LANDED_504,
    Fault.LATE_504,
    Fault.CUT_AFTER,
    Fault.HALF_ANSWER,
]


class _Gateway(HttpProxy):
    """Answers what ``matches`` with a page of this status, having passed it on or not."""

    status: HTTPStatus | None = None
    is_passing_on = False

    def __init__(self, upstream: str, matches: Callable[[str, str], bool] = is_table_commit) -> None:
        super().__init__(upstream)
        self._matches = matches

    def serve(self, request: Request, client: Client) -> None:
        if self.status is None or not self._matches(request.method, request.path):
            client.answer(self.pass_on(request))
            return
        if self.is_passing_on:
            self.pass_on(request)
        page = b"<html>\n<body>by a gateway</body>\n</html>"
        client.answer(Response(self.status, (("Content-Type", "text/html"),), page))


@pytest.fixture
def proxied(served_lake: Lake) -> Iterator[tuple[Lake, FaultProxy]]:
    """A lake whose catalog is reached through a proxy, with a table."""
    served_lake.make_table(dead_letters=False)
    with FaultProxy(served_lake.properties["uri"]) as proxy:
        yield served_lake.behind(proxy.url), proxy


@pytest.fixture
def short_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for an attempt three times at once instead of for eight seconds."""
    monkeypatch.setattr(landing, "READ_BACK_PAUSES_SECONDS", (0.0, 0.0, 0.1))


@pytest.mark.parametrize("fault", LANDED, ids=lambda fault: fault.name.lower())
def test_a_commit_that_landed_is_found(proxied: tuple[Lake, FaultProxy], fault: Fault) -> None:
    """Whatever the answer was, the commit is known to have landed, once, and the table can be read."""
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.arm(fault, is_table_commit)
    committed = lake.commit(request)
    assert [seen.method for seen in proxy.seen if seen.fault] == ["POST"]
    assert committed.progress.has_landed(request.batch.attempt)
    assert lake.offsets() == list(range(10))
    assert _manifests_exist(lake)
    lake.drain(10, 20)
    assert lake.offsets() == list(range(20))


def test_a_commit_that_shows_late_is_looked_for_six_times(
    sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog whose error hides a commit that five more looks do not show: the sixth finds it."""
    lake, looks, send = sqlite_lake, [], landing.send
    lake.make_table(dead_letters=False)
    before = lake.load()

    def lost(catalog: Catalog, table: Table, swap: Swap) -> None:
        send(catalog, table, swap)
        raise ServerError("504")

    def late(catalog: Catalog, name: str) -> Table | None:
        looks.append(name)
        return before if 1 < len(looks) < 7 else load(catalog, name)

    load = landing.load_table
    monkeypatch.setattr(landing, "send", lost)
    monkeypatch.setattr(landing, "load_table", late)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert lake.commit(lake.request(0, 10)).progress.next_offsets == {0: 10}
    assert len(looks) == 7


@pytest.mark.parametrize("fault", [Fault.CUT_BEFORE, Fault.REFUSED_503], ids=lambda fault: fault.name.lower())
@pytest.mark.usefixtures("short_read_back")
def test_a_commit_that_did_not_land_is_unknown_and_done_again(
    proxied: tuple[Lake, FaultProxy], fault: Fault
) -> None:
    """Not found is not "not landed": the files stay, and a new attempt's commit settles it."""
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.arm(fault, is_table_commit)
    with pytest.raises(CommitStateUnknown) as caught:
        lake.commit(request)
    assert caught.value.code == "commit-state-unknown"
    said = "made up by the proxy" if fault is Fault.REFUSED_503 else "ConnectionError"
    assert said in caught.value.message
    assert [seen.method for seen in proxy.seen if seen.fault] == ["POST"]
    assert not lake.has_landed(request.batch.attempt)
    assert all(lake.load().io.new_input(file.path).exists() for file in request.written.data_files)
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


@pytest.mark.usefixtures("short_read_back")
def test_a_refused_commit_is_named_once_the_table_does_not_show_it(served_lake: Lake) -> None:
    """A role that may read and not commit, and a gateway's limit, are no outages; nothing is deleted."""
    served_lake.make_table(dead_letters=False)
    with _Gateway(served_lake.properties["uri"]) as gateway:
        lake, codes = served_lake.behind(gateway.url), []
        for status in (HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            request = lake.request(0, 10)
            gateway.status = status
            with pytest.raises(ConfigError) as caught:
                lake.commit(request)
            codes.append(caught.value.code)
            assert f"{status} {status.phrase} text/html by a gateway" in caught.value.message
            assert all(lake.load().io.new_input(f.path).exists() for f in request.written.data_files)
        assert codes == ["catalog-refused", "request-refused"]
        gateway.status, gateway.is_passing_on = HTTPStatus.FORBIDDEN, True
        assert lake.drain(0, 10).progress.next_offsets == {0: 10}
    assert served_lake.offsets() == list(range(10))


def test_a_gateways_404_is_no_missing_table(served_lake: Lake) -> None:
    """A run would begin to make the table; a catalog's own word for one that is missing still counts."""
    served_lake.make_table(dead_letters=False)
    with _Gateway(served_lake.properties["uri"], lambda _method, path: "/tables/t" in path) as gateway:
        lake = served_lake.behind(gateway.url)
        gateway.status = HTTPStatus.NOT_FOUND
        with pytest.raises(ConfigError) as caught:
            load_table(lake.open(), lake.name())
        assert load_table(lake.open(), lake.name("other")) is None
        assert load_table(lake.open(), "no_such_namespace.other") is None
    assert caught.value.code == "request-refused"


@pytest.mark.parametrize("lake", ["sqlite", REST], indirect=True)
def test_a_lake_that_was_moved_is_named(lake: Lake) -> None:
    """The catalog's path leads nowhere: neither an outage nor a table that is missing."""
    table = lake.make_table(dead_letters=False)
    table.io.delete(table.metadata_location)
    with pytest.raises(ConfigError) as caught:
        load_table(lake.open(), lake.name())
    assert caught.value.code == ("metadata-gone" if lake.kind == "sqlite" else "request-refused")


def test_a_table_of_a_newer_format_is_named(sqlite_lake: Lake) -> None:
    """Another engine upgraded it: PyIceberg reads it, and whatever would commit to it says so, unlogged."""
    lake = sqlite_lake
    lake.make_table(dead_letters=False)
    lake.drain(0, 10)
    request = lake.request(10, 20)
    file = Path(lake.load().metadata_location.removeprefix("file://"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format-version": 3, "next-row-id": 0}))
    pipeline = PipelineConfig.model_validate({"name": "p", "topic": "t", "table": lake.name()})
    codes, logged = [], list[object]()
    connections = SimpleNamespace(
        open_catalog=lake.open,
        actor="me",
        run_id="",
        now_us=lambda: 1,
        new_attempt=lambda: "a",
        txlog=SimpleNamespace(append=lambda *entry: logged.append(entry)),
        fail_points=NoFailPoints(),
    )
    for act in (
        lambda: pause(pipeline, cast("Connections", connections), reason="test"),
        lambda: lake.commit(request),
        lambda: lake.act(lambda progress: progress),
        lambda: check_anchor(lake.load()),
        lambda: check_declared(pipeline, lake.load()),
    ):
        with pytest.raises(ConfigError) as caught:
            act()
        codes.append(caught.value.code)
    assert (codes, logged) == (["table-format-3"] * 5, [])
    assert lake.offsets() == list(range(10))


def test_pyiceberg_cannot_write_a_table_of_format_3(tmp_path: Path) -> None:
    """Once this fails, ADR 57 is to be asked again."""
    output = PyArrowFileIO().new_output(str(tmp_path / "file.avro"))
    with pytest.raises(ValueError, match="manifest for table version: 3"):
        write_manifest(3, UNPARTITIONED_PARTITION_SPEC, Schema(), output, 1, "null")
    with pytest.raises(ValueError, match="manifest list for table version: 3"):
        write_manifest_list(3, output, 1, None, 1, "null")


@pytest.mark.usefixtures("short_read_back")
def test_what_lands_after_the_read_back_is_refused(
    proxied: tuple[Lake, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 504 that lands later than anyone looks: the next attempt and the late one never both count."""
    monkeypatch.setattr(fault_proxy, "LATE_SECONDS", 5.0)  # on a busy machine the next attempt takes some
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.arm(Fault.LATE_504, is_table_commit)
    with pytest.raises(CommitStateUnknown):
        lake.commit(request)
    lake.drain(0, 10)
    assert proxy.late_status() == HTTPStatus.CONFLICT
    assert lake.offsets() == list(range(10))
    assert not lake.has_landed(request.batch.attempt)


@pytest.mark.usefixtures("short_read_back")
def test_a_catalog_gone_at_read_back_leaves_the_outcome_unknown(proxied: tuple[Lake, FaultProxy]) -> None:
    """A swap was sent: "the catalog is away" would be a promise that nothing landed."""
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.arm(Fault.CUT_BEFORE, is_table_commit)
    with pytest.raises(CommitStateUnknown):
        lake.commit(request, proxy.stop)
    assert [seen.method for seen in proxy.seen if seen.fault] == ["POST"]


def test_a_catalog_gone_after_a_409_leaves_the_outcome_unknown(
    proxied: tuple[Lake, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The 409 may have landed: what is looked for next and cannot be seen is not "nothing was sent"."""
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.arm(Fault.LANDED_409, is_table_commit)
    monkeypatch.setattr(landing, "_pause", lambda _retries: proxy.stop())
    with pytest.raises(CommitStateUnknown):
        lake.commit(request)
    assert [seen.method for seen in proxy.seen if seen.fault] == ["POST"]


def test_the_last_conflict_is_looked_up_like_the_others(
    sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A 409 that had landed is found, and only then too many are too many."""
    lake = sqlite_lake
    lake.make_table(dead_letters=False)
    conflicts = iter([False] * landing.MAX_CONFLICTS + [True] + [False] * 99)
    send = landing.send

    def conflict(*swap: Any) -> None:
        if next(conflicts):
            send(*swap)
        raise CommitFailedException("409")

    monkeypatch.setattr(landing, "send", conflict)
    monkeypatch.setattr(landing, "_pause", lambda _retries: None)
    assert lake.drain(0, 10).progress.next_offsets == {0: 10}
    assert lake.offsets() == list(range(10))
    with pytest.raises(RetryableError) as crowded:
        lake.drain(10, 20)
    assert crowded.value.code == "commit-crowded-out"


@pytest.mark.usefixtures("short_read_back")
def test_credentials_that_expire_with_the_swap_leave_the_outcome_unknown(
    sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that lets nobody look says nothing; nobody looks before the catalog of the swap is closed."""
    lake = sqlite_lake
    lake.make_table(dead_letters=False)
    request, events, send = lake.request(0, 10), [], landing.send

    def open_once() -> Catalog:
        if "open" in events:
            events.append("refused")
            raise ConfigError("expired", code="catalog-refused", hint="Renew them.")
        events.append("open")
        catalog = lake.open()
        monkeypatch.setattr(catalog, "close", lambda: events.append("close"))
        return catalog

    def land_unanswered(*swap: Any) -> None:
        send(*swap)
        raise UnauthorizedError("expired")

    monkeypatch.setattr(landing, "send", land_unanswered)
    with pytest.raises(CommitStateUnknown) as caught:
        landing.land(Access(open_once, NoFailPoints()), request)
    assert "UnauthorizedError" in caught.value.message
    assert events == ["open", "close", "refused", "refused", "refused"]
    assert lake.has_landed(request.batch.attempt)


def test_a_catalog_gone_before_the_swap_is_worth_a_retry(proxied: tuple[Lake, FaultProxy]) -> None:
    """Nothing was sent, so nothing can have landed."""
    lake, proxy = proxied
    request = lake.request(0, 10)
    proxy.stop()
    with pytest.raises(RetryableError) as caught:
        lake.commit(request)
    assert caught.value.code == "catalog-away"


def test_a_catalog_that_never_answers_does_not_hold_a_run(
    proxied: tuple[Lake, FaultProxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions have timeouts."""
    lake, proxy = proxied
    monkeypatch.setattr(rest_catalog, "TIMEOUTS_SECONDS", (0.5, 0.5))
    proxy.arm(Fault.NO_ANSWER, lambda *_: True)
    started = time.monotonic()
    with pytest.raises(RetryableError):
        lake.open()
    assert time.monotonic() - started < 10


def test_a_main_that_cannot_be_read_is_no_catalog_that_is_away(lake: Lake) -> None:
    """Another engine may delete what it had committed; waiting does not mend that, going back does."""
    lake.make_table(dead_letters=False)
    lake.drain(0, 10)
    snapshot = lake.load().current_snapshot()
    assert snapshot is not None
    lake.load().io.delete(snapshot.manifest_list)
    with pytest.raises(RetryableError) as caught:
        lake.commit(lake.request(10, 20))
    assert caught.value.code == "manifest-unreadable"
    assert "rollback" in (caught.value.hint or "")
    assert lake.load().metadata.current_snapshot_id == snapshot.snapshot_id


@dataclass(frozen=True)
class _Staging:
    """A commit that ends with this while it is made."""

    identifier: str
    error: Exception
    attempt: str = "a"
    fail_point: str = "commit"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:  # noqa: ARG002
        """Raise it."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "is_retryable"),
    [
        (ValueError("Cannot create expression literal from NaN: nan"), "cannot-commit", False),
        (TypeError("Cannot convert LongLiteral into unknown"), "cannot-commit", False),
        (ValidationError("Invalid partition"), "cannot-commit", False),
        (pa.ArrowNotImplementedError("'unique' has no kernel matching input types"), "cannot-commit", False),
        (KeyError("id_bucket"), "cannot-commit", False),
        (OSError("AWS Error UNKNOWN (HTTP status 503) during PutObject"), "storage-failed", True),
        (TimeoutError("timed out"), "storage-failed", True),
        (ServerError("502: the gateway"), "catalog-away", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_fails_alike_each_time_is_no_outage(
    sqlite_lake: Lake, error: Exception, code: str, is_retryable: bool
) -> None:
    """No catalog is asked while a commit is made: what a library refuses then it refuses the next time."""
    sqlite_lake.make_table(dead_letters=False)
    with pytest.raises(SluiceError, match=str(error).strip("'")[:12]) as caught:
        land(sqlite_lake.access(), _Staging(sqlite_lake.name(), error))
    assert (caught.value.code, caught.value.is_retryable) == (code, is_retryable)
    assert caught.value.where == {"table": sqlite_lake.name()}


def test_a_table_that_cannot_be_made_is_no_outage(sqlite_lake: Lake) -> None:
    """What PyIceberg refuses before it asks the catalog is refused each time."""
    with pytest.raises(ConfigError) as caught:
        sqlite_lake.make_table(dead_letters=False, properties={"format-version": "none"})
    assert caught.value.code == "cannot-commit"


def test_a_commit_passes_beside_a_reader(sqlite_lake: Lake) -> None:
    """The embedded catalog's write-ahead log: a reader's lock does not fail the COMMIT."""
    lake = sqlite_lake
    lake.make_table()
    with closing(_connect(lake)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        lake.drain(0, 10)
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert lake.offsets() == list(range(10))


@pytest.mark.usefixtures("short_read_back")
def test_a_locked_catalog_commits_nothing_and_shows_nothing(
    sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer holds the lock past the timeout: unknown, and a new catalog object shows no commit."""
    lake = sqlite_lake
    lake.make_table()
    request = lake.request(0, 10)
    monkeypatch.setattr(sql_catalog, "SQLITE_BUSY_TIMEOUT_SECONDS", 0.2)
    with closing(_connect(lake)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(CommitStateUnknown):
            lake.commit(request)
        assert not lake.has_landed(request.batch.attempt)
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


def test_opening_is_explained() -> None:
    """Nothing listening, no kind, a catalog in memory, settings that are none: each has its name."""
    codes = []
    for properties in (
        {"type": "rest", "uri": "http://127.0.0.1:9"},
        {"warehouse": "x"},
        {"type": "sql", "uri": "sqlite:///:memory:"},
        {"type": "sql"},
        {"type": "sql", "uri": "no address"},
        {"type": "sql", "uri": "no-such-database://host/lake"},
        {"type": "nothing"},
    ):
        with pytest.raises((RetryableError, ConfigError)) as caught:
            open_catalog("c", properties)
        codes.append(caught.value.code)
    assert codes == ["catalog-away", "catalog-settings", "catalog-in-memory", *["catalog-settings"] * 4]


def test_a_catalog_whose_file_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """An empty catalog beside the tables would drain all of it again; an empty file says that it is meant."""
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/lake",
    }
    lake = Lake("sqlite", properties, "demo")
    lake.make_table()
    lake.drain(0, 10)
    file = Path(lake.properties["uri"].removeprefix("sqlite:///"))
    file.rename(tmp_path / "backup")
    with pytest.raises(ConfigError, match="contains tables") as caught:
        lake.open()
    assert (caught.value.code, file.exists()) == ("catalog-missing", False)
    (tmp_path / "backup").rename(file)
    assert lake.offsets() == list(range(10))
    file.unlink()
    file.touch()
    assert lake.open().list_namespaces() == []


def test_a_warehouse_without_a_table_is_no_sign_of_a_lost_catalog(tmp_path: Path) -> None:
    """A new volume has a folder for what its file system finds, a repository a file that keeps the folder."""
    (tmp_path / "lake" / "lost+found").mkdir(parents=True)
    (tmp_path / "lake" / ".gitkeep").touch()
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/lake"
    close_catalog(open_catalog("sluice", {"type": "sql", "uri": uri, "warehouse": warehouse}))
    assert (tmp_path / "catalog.db").exists()


def test_a_catalog_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    """Where somebody is about to write, SQLite refuses to change the journal at once, however patient."""
    with closing(
        sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    ) as maker:
        maker.execute("BEGIN IMMEDIATE")
        done = threading.Timer(0.3, maker.execute, ["COMMIT"])
        done.start()
        close_catalog(open_catalog("sluice", {"type": "sql", "uri": f"sqlite:///{tmp_path}/new.db"}))
        done.join()


def _connect(lake: Lake) -> sqlite3.Connection:
    return sqlite3.connect(lake.properties["uri"].removeprefix("sqlite:///"), isolation_level=None)


def _manifests_exist(lake: Lake) -> bool:
    table = lake.load()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    paths = [snapshot.manifest_list, *(m.manifest_path for m in snapshot.manifests(table.io))]
    return all(table.io.new_input(path).exists() for path in paths)
