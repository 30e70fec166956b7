"""Flight SQL as its own drivers speak it: ADBC's here, and JDBC's in a JVM."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pytest
from pyarrow import flight

from spark_jobs.config.listener import Address, ServeSettings
from spark_jobs.serve.flight_api import FlightApi
from spark_jobs.serve.service import QueryService
from tests.support.asked import Drained
from tests.support.lake import Lake
from tests.support.recovery_scene import make_scene

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 30
TOKEN = "hunter2-Tr0ub4dor-and-3"
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


@contextmanager
def adbc_to(api: FlightApi, **headers: str) -> Iterator[adbc.Connection]:
    """ADBC's driver, connected, with these headers on every call."""
    said = {f"adbc.flight.sql.rpc.call_header.{name}": value for name, value in headers.items()}
    with adbc.connect(f"grpc://127.0.0.1:{api.port}", db_kwargs=said, autocommit=True) as connection:
        yield connection


def test_adbc_runs_statements_and_finds_tables(tails: Drained) -> None:
    with serving(tails) as api, adbc_to(api) as client, client.cursor() as cursor:
        cursor.execute("SELECT id, name FROM t ORDER BY id")
        assert cursor.fetchall() == EVERY
        cursor.execute("SELECT id FROM t WHERE id = ? OR name = ? ORDER BY id", (3, "n5"))
        assert cursor.fetchall() == [(3,), (5,)]
        print(client.adbc_get_info())
        print(client.adbc_get_table_types())
        print(client.adbc_get_objects(depth="all").read_all().to_pylist())
        print(client.adbc_get_table_schema("t"))
