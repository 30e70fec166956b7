"""Flight SQL as its own drivers speak it: ADBC's here, and JDBC's in a JVM."""

from __future__ import annotations

import struct
import time
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import flight

from serving import flight_statement
from serving.flight_api import FlightApi
from serving.flight_statement import packed
from serving.service import QueryService
from spark_jobs.config.listener import Address, ServeSettings
from tests.support.asked import Drained
from tests.support.jdbc import jdbc, rows_of
from tests.support.lake import Lake
from tests.support.recovery_scene import make_scene

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROWS = 30
TOKEN = "hunter2-Tr0ub4dor-and-3"
# A fact that is lacking is an error in the driver.
METADATA = {
    "isReadOnly": True,
    "supportsTransactions": False,
    "supportsGroupBy": True,
    "supportsUnion": True,
    "getMaxConnections": 0,
    "getDefaultTransactionIsolation": 0,
    "supportsConvert": False,
    "supportsBatchUpdates": False,
    "getIdentifierQuoteString": '"',
}
EVERY = [(number, f"n{number}") for number in range(ROWS) if number != 12]


@pytest.fixture
def tails(sqlite_lake: Lake, tmp_path: Path) -> Drained:
    """Two pipelines over one table of 29 rows and a dead letter."""
    scene = make_scene(sqlite_lake, str(tmp_path / "state"))
    scene.lake.drain(0, ROWS, dead_letters=[12])
    pipelines = {name: scene.pipeline.model_copy(update={"name": name}) for name in ("one", "other")}
    return Drained(pipelines, scene.connections)


@contextmanager
def serving(
    tails: Drained, *names: str, tokens: tuple[str, ...] = (), **settings: Any
) -> Iterator[FlightApi]:
    """A server of these pipelines on a free port."""
    served = [tails.pipelines[name] for name in names or ("one",)]
    service = QueryService(served, tails.connections, tails, ServeSettings(**settings))
    with FlightApi(service, Address("127.0.0.1", 0), tokens=tokens) as api:
        yield api
        service.close()


def uri(api: FlightApi) -> str:
    """Where the server is."""
    return f"grpc://127.0.0.1:{api.port}"


@contextmanager
def adbc_to(api: FlightApi, **headers: str) -> Iterator[adbc.Connection]:
    """ADBC's driver, connected, with these headers on every call."""
    said = {f"adbc.flight.sql.rpc.call_header.{name}": value for name, value in headers.items()}
    with adbc.connect(uri(api), db_kwargs=said, autocommit=True) as connection:
        yield connection


def crafted_ticket() -> bytes:
    """A ticket as they were, not signed, with a parameter that claims a million bytes and has 64."""
    sink = pa.BufferOutputStream()
    bound = pa.table({"0": [b"x" * 64]}).replace_schema_metadata({b"sql": b"SELECT ?"})
    with pa.ipc.new_stream(sink, bound.schema) as writer:
        writer.write_table(bound)
    handle = sink.getvalue().to_pybytes()
    before, _, behind = handle.rpartition(struct.pack("<ii", 0, 64))
    claimed = before + struct.pack("<ii", 0, 1_000_000) + behind
    return packed("TicketStatementQuery", statement_handle=claimed)


def columns(listed: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The columns by whole name of a table, of what ADBC says is there."""
    return {
        ".".join((schema["db_schema_name"], table["table_name"])): [
            column["column_name"] for column in table["table_columns"] or ()
        ]
        for catalog in listed
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }


def test_a_client_that_leaves_behind_the_first_rows_ends_its_query(tails: Drained) -> None:
    """Its slot is another's at once."""
    slow = "FROM range(1000000000000) r(i) WHERE i < 20000"
    with serving(tails, max_queries=1) as api, flight.connect(uri(api)) as client:
        command = packed("CommandStatementQuery", query=slow)
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        reader = client.do_get(info.endpoints[0].ticket)
        assert len(reader.read_chunk().data)
        reader.cancel()
        with adbc_to(api) as other, other.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]


def test_adbc_runs_statements_and_finds_what_is_there(tails: Drained) -> None:
    """Rows, bound parameters of any type, facts, and each table once, under a name that can be queried."""
    with serving(tails) as api, adbc_to(api) as client, client.cursor() as cursor:
        cursor.execute("SELECT id, name FROM t ORDER BY id")
        assert cursor.fetchall() == EVERY
        cursor.execute("SELECT id FROM t WHERE id = ? OR name = ? OR _kafka_timestamp IS NULL", (3, "n5"))
        assert sorted(cursor.fetchall()) == [(3,), (5,)]
        cursor.execute("SELECT ?::DECIMAL(9, 2), ?, ?, ?", (Decimal("1.25"), None, [1, 2], b"x"))
        assert cursor.fetchall() == [(Decimal("1.25"), None, [1, 2], b"x")]
        cursor.execute("SELECT repeat('x', 3000) FROM range(10000)")  # of which one message is too large
        assert len(cursor.fetchall()) == 10_000
        cursor.execute("SELECT end_offset FROM sluice_watermark")
        assert cursor.fetchall() == [(ROWS,)]
        assert client.adbc_get_info()["vendor_name"] == "Sluice"
        there = columns(client.adbc_get_objects(depth="columns").read_all().to_pylist())
        for name, names in there.items():
            cursor.execute(f"FROM {name} LIMIT 0")
            assert [column[0] for column in cursor.description or ()] == names
        assert [name.rpartition(".")[2] for name in there] == ["dead_letters", "sluice_watermark", "t"]
        found = client.adbc_get_objects(depth="tables", table_name_filter="%letters").read_all().to_pylist()
        assert [*columns(found)] == ["main.dead_letters"]


def test_a_client_chooses_by_headers_of_its_calls(tails: Drained) -> None:
    """The pipeline where there are several, and the records that an answer is over."""
    with serving(tails, "one", "other") as api:
        with (
            adbc_to(api) as client,
            client.cursor() as cursor,
            pytest.raises(adbc.Error, match="which-pipeline"),
        ):
            cursor.execute("FROM t")
        with adbc_to(api, pipeline="other", after="0:7") as client, client.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchall() == [(ROWS - 1,)]
        assert tails.pinned[-1]["after"] == {0: 7}
        with adbc_to(api, pipeline="one", at="0.0/0:5") as client, client.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchall() == [(5,)]
        with (
            adbc_to(api, pipeline="one", at="0.0/0:5", after="0:7") as client,
            client.cursor() as cursor,
            pytest.raises(adbc.Error, match="unreadable-request"),
        ):
            cursor.execute("FROM t")


def test_what_is_not_answered_says_why_and_nothing_of_the_server(tails: Drained) -> None:
    """SQL that is wrong, changes, and bytes that are no request: a code, a hint, and no traceback."""
    told = []
    with serving(tails) as api, adbc_to(api) as client, client.cursor() as cursor:
        refused: dict[str, Callable[[], Any]] = {
            "query-refused": lambda: cursor.execute("SELECT nme FROM t"),
            "more than 1,000,000": lambda: cursor.execute("SELECT '" + "x" * 2**20 + "'"),
            "the statement with its parameters": lambda: cursor.execute("SELECT ?", ("x" * 2**20,)),
            "the function read_text is not allowed": lambda: cursor.execute("FROM read_text('/etc/passwd')"),
            "queries can only read": lambda: cursor.adbc_ingest("t", pa.table({"id": [1]}), mode="append"),
            "2 rows of parameters": lambda: cursor.execute("SELECT ?", pa.record_batch({"0": [1, 2]})),
        }
        for what, does in refused.items():
            with pytest.raises(adbc.Error, match=what) as error:
                does()
            told.append(str(error.value))
        with flight.connect(uri(api)) as plain:
            for ticket in (
                b"",
                crafted_ticket(),
                b"\xff",
                packed("TicketStatementQuery", statement_handle=b"x"),
            ):
                with pytest.raises(pa.ArrowException, match=r"query-refused|unreadable-request") as error:
                    plain.do_get(flight.Ticket(ticket)).read_all()
                told.append(str(error.value))
    assert not [each for each in told if "Traceback" in each or ".py" in each]


def test_nobody_asks_without_a_token(tails: Drained) -> None:
    """One as bearer or as password is enough, a wrong one or none is not; without tokens nobody needs one."""

    def asked(**said: str) -> list[Any]:
        with adbc.connect(uri(api), db_kwargs=said, autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("SELECT 1")
            rows: list[Any] = cursor.fetchall()
            return rows

    bearer = {"adbc.flight.sql.authorization_header": f"Bearer {TOKEN}"}
    as_password = {"username": "me", "password": TOKEN}
    with serving(tails, tokens=(TOKEN,)) as api:
        assert asked(**bearer) == asked(**as_password) == [(1,)]
        for wrong in ({}, as_password | {"password": f"{TOKEN}x"}):
            with pytest.raises(adbc.Error, match="A token is required"):
                asked(**wrong)
    with serving(tails) as api:
        assert asked() == asked(**bearer) == asked(**as_password) == [(1,)]


def test_a_query_ends_when_its_time_is_over_whoever_takes_it(
    tails: Drained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that computes is told; one that is not taken leaves its place, and is never whole."""
    monkeypatch.setattr(flight_statement, "_SEND_SECONDS", 0.2)
    with serving(tails, query_timeout="1s", max_queries=1) as api, adbc_to(api) as client:
        with client.cursor() as cursor, pytest.raises(adbc.Error, match="query-timeout"):
            cursor.execute("SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)")
        with flight.connect(uri(api)) as slow, client.cursor() as cursor:
            asked = flight.FlightDescriptor.for_command(
                packed("CommandStatementQuery", query="FROM range(10000000000)")
            )
            reader = slow.do_get(slow.get_flight_info(asked).endpoints[0].ticket)
            reader.read_chunk()
            time.sleep(1.5)
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]
            with pytest.raises(pa.ArrowException, match="query-timeout"):
                reader.read_all()


def test_jdbc_runs_statements_and_finds_what_is_there(tails: Drained) -> None:
    """Its driver logs in with the token as password, binds texts, and gets an answer to what tools ask."""
    with jdbc() as connected, serving(tails, "one", "other", tokens=(TOKEN,)) as api:
        client = connected(f"127.0.0.1:{api.port}", user="me", password=TOKEN, pipeline="one")
        statement = client.createStatement()
        assert rows_of(statement.executeQuery("SELECT id, name FROM t ORDER BY id")) == [
            [number, name] for number, name in EVERY
        ]
        with pytest.raises(Py4JJavaError, match="query-refused"):
            statement.executeUpdate("INSERT INTO t VALUES (1)")
        statement.close()
        prepared = client.prepareStatement("SELECT id FROM t WHERE name = ? OR id = ?::BIGINT ORDER BY id")
        for name, number in (("n5", "3"), ("n7", "1")):
            prepared.setString(1, name)
            prepared.setString(2, number)
            assert rows_of(prepared.executeQuery()) == [[int(number)], [int(name[1:])]]
        prepared.close()
        about = client.getMetaData()
        tables = [row[2] for row in rows_of(about.getTables(None, None, "%", None))]
        assert tables == ["dead_letters", "sluice_watermark", "t"]
        names = [row[3] for row in rows_of(about.getColumns(None, None, "t", None))]
        assert names[:3] == ["id", "name", "at"]
        assert rows_of(about.getPrimaryKeys(None, None, "t")) == []
        assert {name: getattr(about, name)() for name in METADATA} == METADATA
        client.close()
