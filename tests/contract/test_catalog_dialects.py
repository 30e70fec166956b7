"""Polaris and Lakekeeper as their documents and sources have it, played before Iceberg's reference server.

Both serve many catalogs at one address: ``warehouse`` names one, whose prefix stands in all other addresses.
Polaris 1.4 picks a realm by header. Lakekeeper 0.13 lists by pages, and keeps the place of a dropped table.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from prove.lab.catalog_guard import VendedStore, VendingProxy
from prove.lab.http_proxy import HttpProxy, Response
from spark_jobs.protocol.errors import ConfigError, RetryableError
from tests.support.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.http_proxy import Client, Request

pytestmark = pytest.mark.rest
JSON = (("Content-Type", "application/json"),)
HEADERS = {"polaris": ("Polaris-Realm", "POLARIS"), "lakekeeper": ("x-project-id", "lake-house")}


class Dialect(HttpProxy):
    """One of the two; ``refusal`` is the answer to each creation and commit, with the error's type."""

    def __init__(self, upstream: str, server: str) -> None:
        super().__init__(upstream)
        self.server = server
        self.refusal: tuple[int, str] | None = None

    def serve(self, request: Request, client: Client) -> None:
        name, value = HEADERS[self.server]
        url = urlsplit(request.path)
        if request.headers[name] != value:
            client.answer(error(404, "NotFoundException"))
        elif url.path == "/v1/config":
            client.answer(self._config(parse_qs(url.query).get("warehouse")))
        elif not url.path.startswith("/v1/of-the-lake/"):
            client.answer(error(404, "NoSuchWarehouseException"))
        elif self.refusal and request.method == "POST" and "/tables" in url.path:
            client.answer(error(*self.refusal))
        else:
            del request.headers["Accept-Encoding"]
            path = request.path.replace("/v1/of-the-lake/", "/v1/", 1)
            client.answer(self.pass_on(replace(request, path=path)))

    def _config(self, warehouse: list[str] | None) -> Response:
        if warehouse != ["lake"]:
            return error(400 if warehouse is None else 404, "NoSuchWarehouseException")
        defaults = {"prefix": "of-the-lake", "rest-page-size": "2"}
        return Response(
            200, JSON, json.dumps({"defaults": defaults, "overrides": {"uri": self.url}}).encode()
        )


def error(status: int, kind: str) -> Response:
    """An error of the protocol."""
    content = {"error": {"message": "as documented", "type": kind, "code": status}}
    return Response(status, JSON, json.dumps(content).encode())


@pytest.fixture(params=HEADERS)
def served(rest_lake: Lake, request: pytest.FixtureRequest) -> Iterator[tuple[Lake, Dialect]]:
    """A lake whose keys for S3 come with its tables."""
    own = {name: value for name, value in rest_lake.properties.items() if not name.startswith("s3.")}
    name, value = HEADERS[request.param]
    with (
        VendedStore(rest_lake.properties["s3.endpoint"]) as store,
        VendingProxy(own["uri"], store) as vending,
        Dialect(vending.url, request.param) as dialect,
    ):
        named = {"uri": dialect.url, "warehouse": "lake", f"header.{name}": value, "s3.region": "us-east-1"}
        yield replace(rest_lake, properties={**own, **named}), dialect


def test_a_table_lives_by_either_dialect(served: tuple[Lake, Dialect]) -> None:
    """Created with its first snapshot, filled, dropped, and created again at another place."""
    lake, _ = served
    first = lake.make_table()
    lake.drain(0, 10, dead_letters=[3])
    lake.make_table("other")
    assert lake.offsets() == [0, 1, 2, *range(4, 10)]
    assert len(lake.open().list_tables(lake.namespace)) == 4
    for table in ("t", "t_dead_letters"):
        lake.open().drop_table(lake.name(table))
    assert lake.make_table().location() != first.location()


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        ((400, "NamespaceDepthExceeded"), "request-refused"),
        ((403, "ForbiddenException"), "catalog-refused"),
        ((403, "TableActionForbidden"), "catalog-refused"),
        ((404, "NoSuchWarehouseException"), "request-refused"),
        ((409, "LocationAlreadyTaken"), "catalog-away"),
        ((409, "ConcurrentUpdateError"), "catalog-away"),
        ((503, "ServiceUnavailableException"), "catalog-away"),
    ],
)
def test_a_refused_creation_has_a_name(
    served: tuple[Lake, Dialect], refusal: tuple[int, str], code: str
) -> None:
    """The place of a dropped table is another one with the next run; rights and names are the user's."""
    lake, dialect = served
    dialect.refusal = refusal
    with pytest.raises((ConfigError, RetryableError), match="as documented") as caught:
        lake.make_table(dead_letters=False)
    assert caught.value.code == code
    dialect.refusal = None
    lake.make_table(dead_letters=False)


def test_a_warehouse_or_a_realm_that_is_not_there_is_no_outage(served: tuple[Lake, Dialect]) -> None:
    """Nor is one that is missing in the configuration."""
    lake, dialect = served
    realm, _ = HEADERS[dialect.server]
    for wrong in ({"warehouse": "another"}, {"warehouse": ""}, {f"header.{realm}": "another"}):
        with pytest.raises(ConfigError) as caught:
            replace(lake, properties={**lake.properties, **wrong}).open()
        assert caught.value.code == "request-refused"
