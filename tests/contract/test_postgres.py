"""Postgres itself: restarted under a commit, refusing, away, locked, opened by many at once."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.engine.default import DefaultDialect

from prove.lab.postgres import PASSWORD, PostgresCatalog, start_postgres
from servers.process import ServerFolder
from spark_jobs.commit import swap
from spark_jobs.lake import sql_catalog
from spark_jobs.lake.catalog import close_catalog, open_catalog
from spark_jobs.protocol.errors import CommitStateUnknown, ConfigError, RetryableError
from tests.support.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server(servers_folder: Path) -> Iterator[PostgresCatalog]:
    """A Postgres that these tests may let crash."""
    server = start_postgres(ServerFolder(servers_folder, f"postgres-{uuid.uuid4().hex[:8]}"))
    yield server
    server.process.stop()


@pytest.fixture
def lake(server: PostgresCatalog, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table in it; who looks for an attempt does so three times at once instead of for eight seconds."""
    monkeypatch.setattr(swap, "READ_BACK_PAUSES_SECONDS", (0.0, 0.0, 0.1))
    lake = Lake("postgres", server.properties, f"ns_{uuid.uuid4().hex[:10]}")
    lake.make_table()
    return lake


def test_a_restart_before_the_swap_leaves_the_outcome_unknown(lake: Lake, server: PostgresCatalog) -> None:
    """What a broken session says is no proof: the files stay, and the next attempt settles it."""
    request = lake.request(0, 10)
    with pytest.raises(CommitStateUnknown):
        lake.commit(request, server.restart)
    assert all(lake.load().io.new_input(file.path).exists() for file in request.written.data_files)
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


def test_a_commit_that_landed_before_a_restart_is_found(
    lake: Lake, server: PostgresCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COMMIT was done, its answer died with the server: the new one is asked, and nothing is done twice."""
    request, commit = lake.request(0, 10), DefaultDialect.do_commit

    def commit_unanswered(dialect: Any, connection: Any) -> None:
        commit(dialect, connection)
        monkeypatch.setattr(DefaultDialect, "do_commit", commit)
        server.restart()
        raise psycopg2.OperationalError("server closed the connection unexpectedly")

    def arm() -> None:
        monkeypatch.setattr(DefaultDialect, "do_commit", commit_unanswered)

    assert lake.commit(request, arm).progress.has_landed(request.batch.attempt)
    assert lake.offsets() == list(range(10))
    lake.drain(10, 20)
    assert lake.offsets() == list(range(20))


def test_a_lock_that_another_session_holds_does_not_hold_a_run(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement has a time-out; what it was refused for is unknown, like any other outcome."""
    short = {**sql_catalog._POSTGRES_PATIENCE, "options": "-c statement_timeout=200ms"}
    monkeypatch.setattr(sql_catalog, "_POSTGRES_PATIENCE", short)
    request = lake.request(0, 10)
    with closing(psycopg2.connect(lake.properties["uri"])) as other:
        other.cursor().execute("SELECT * FROM iceberg_tables FOR UPDATE")
        with pytest.raises(CommitStateUnknown, match="statement timeout"):
            lake.commit(request)
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


def test_a_wrong_password_is_refused_and_nobody_there_is_away(server: PostgresCatalog) -> None:
    """One is a mistake of the configuration, the other worth a retry; neither shows a password."""
    uri = make_url(server.properties["uri"])
    wrong = uri.set(password="wrong-password").render_as_string(hide_password=False)
    with pytest.raises(ConfigError, match="password authentication failed") as refused:
        open_catalog("lake", {**server.properties, "uri": wrong})
    assert refused.value.code == "catalog-refused"
    away = uri.set(port=9).render_as_string(hide_password=False)
    with pytest.raises(RetryableError) as nobody:
        open_catalog("lake", {**server.properties, "uri": away})
    assert nobody.value.code == "catalog-away"
    for error in (refused.value, nobody.value):
        assert PASSWORD not in str(error)
        assert "wrong-password" not in str(error)
        assert "\n" not in error.message


def test_a_user_without_rights_is_refused(server: PostgresCatalog) -> None:
    """Somebody who may log in and nothing more."""
    uri = make_url(server.properties["uri"])
    name = f"guest_{uuid.uuid4().hex[:8]}"
    with closing(psycopg2.connect(server.properties["uri"])) as admin, admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE USER {name} PASSWORD 'guest-password'")
    guest = uri.set(username=name, password="guest-password").render_as_string(hide_password=False)
    with pytest.raises(ConfigError, match="permission denied") as refused:
        open_catalog("lake", {**server.properties, "uri": guest})
    assert refused.value.code == "catalog-refused"


def test_a_new_database_may_be_opened_by_many_at_once(server: PostgresCatalog) -> None:
    """All of them make the catalog's tables, one succeeds, and the others find them."""
    with closing(psycopg2.connect(server.properties["uri"])) as admin:
        admin.autocommit = True
        admin.cursor().execute("CREATE DATABASE crowded")
    uri = make_url(server.properties["uri"]).set(database="crowded").render_as_string(hide_password=False)
    together = threading.Barrier(8)

    def open_at_once() -> None:
        together.wait()
        close_catalog(open_catalog("lake", {**server.properties, "uri": uri}))

    with ThreadPoolExecutor(8) as pool:
        for opened in [pool.submit(open_at_once) for _ in range(8)]:
            opened.result()


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("postgresql://u:p@h/d", sql_catalog._POSTGRES_PATIENCE["options"]),
        ("postgresql://u:p@h/d?options=", None),
        ("postgresql://u:p@h/d?options=-c%20a%3Db", "-c a=b"),
    ],
)
def test_a_pooler_is_given_the_options_that_were_written(
    address: str, options: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None where it takes none, by an empty one; time-outs where nothing is written."""
    asked: list[str] = []

    def opened(_name: str, properties: dict[str, str], *_crowded: type[Exception]) -> None:
        asked.append(properties["uri"])

    monkeypatch.setattr(sql_catalog, "_opened", opened)
    sql_catalog._open_postgres("lake", {"uri": address})
    assert make_url(asked[0]).query.get("options") == options
