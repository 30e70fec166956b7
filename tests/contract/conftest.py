"""The catalogs the commit protocol is held against: the same tests over all of them."""

from __future__ import annotations

import uuid

import pytest

from tests.support.lake import Lake

REST = pytest.param("rest", marks=pytest.mark.rest)
NESSIE = pytest.param("nessie", marks=pytest.mark.nessie)
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


def _lake(kind: str, request: pytest.FixtureRequest) -> Lake:
    properties = request.getfixturevalue(f"{kind}_catalog_properties")
    return Lake(kind, dict(properties), f"ns_{uuid.uuid4().hex[:10]}")


@pytest.fixture(params=["sqlite", POSTGRES, REST, NESSIE])
def lake(request: pytest.FixtureRequest) -> Lake:
    """Each of the four catalogs in turn, with a namespace of the test's own."""
    return _lake(request.param, request)


@pytest.fixture(params=[REST, NESSIE])
def served_lake(request: pytest.FixtureRequest) -> Lake:
    """Each catalog that is an HTTP server."""
    return _lake(request.param, request)


@pytest.fixture(params=[NESSIE])
def nessie_lake(request: pytest.FixtureRequest) -> Lake:
    """The catalog that shows no earlier snapshot."""
    return _lake(request.param, request)


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest) -> Lake:
    """The embedded catalog."""
    return _lake("sqlite", request)


@pytest.fixture(params=["sqlite", POSTGRES, REST])
def lake_with_history(request: pytest.FixtureRequest) -> Lake:
    """The catalogs that show a table's earlier snapshots."""
    return _lake(request.param, request)
