"""The catalogs the commit protocol is held against: the same tests over all of them."""

from __future__ import annotations

import uuid

import pytest

from tests.support.lake import Lake

REST = pytest.param("rest", marks=pytest.mark.rest)
NESSIE = pytest.param("nessie", marks=pytest.mark.nessie)
GLUE = pytest.param("glue", marks=pytest.mark.glue)
POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


# What else the suite tests on each catalog depends on what is between a catalog's load and its update, which
# PyIceberg has in common for Glue and SQLite. Glue is left out there: it would take half a minute.
WITH_GLUE = {"test_catalog_birth", "test_catalog_commit", "test_catalog_trial", "test_glue"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave Glue out of all other files."""
    items[:] = [item for item in items if item.path.stem in WITH_GLUE or not item.get_closest_marker("glue")]


def _lake(kind: str, request: pytest.FixtureRequest) -> Lake:
    properties = request.getfixturevalue(f"{kind}_catalog_properties")
    return Lake(kind, dict(properties), f"ns_{uuid.uuid4().hex[:10]}")


@pytest.fixture(params=["sqlite", POSTGRES, REST, NESSIE, GLUE])
def lake(request: pytest.FixtureRequest) -> Lake:
    """Each of the five catalogs in turn, with a namespace of the test's own."""
    return _lake(request.param, request)


@pytest.fixture(params=[REST, NESSIE])
def served_lake(request: pytest.FixtureRequest) -> Lake:
    """Each catalog that is an HTTP server."""
    return _lake(request.param, request)


@pytest.fixture(params=[REST])
def rest_lake(request: pytest.FixtureRequest) -> Lake:
    """Iceberg's reference server."""
    return _lake(request.param, request)


@pytest.fixture(params=[NESSIE])
def nessie_lake(request: pytest.FixtureRequest) -> Lake:
    """The catalog that shows no earlier snapshot."""
    return _lake(request.param, request)


@pytest.fixture(params=[GLUE])
def glue_lake(request: pytest.FixtureRequest) -> Lake:
    """The catalog whose client compares, and then again its server."""
    return _lake(request.param, request)


@pytest.fixture
def sqlite_lake(request: pytest.FixtureRequest) -> Lake:
    """The embedded catalog."""
    return _lake("sqlite", request)


@pytest.fixture(params=["sqlite", POSTGRES, REST])
def lake_with_history(request: pytest.FixtureRequest) -> Lake:
    """The catalogs that show a table's earlier snapshots."""
    return _lake(request.param, request)
