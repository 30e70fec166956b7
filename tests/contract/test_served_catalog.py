"""The served catalog as its clients see it: every route and refusal, and PyIceberg's own client over it."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog.rest import Endpoint, RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServiceUnavailableError,
    UnauthorizedError,
)
from pyiceberg.transforms import BucketTransform

from servers import catalog as served_catalog
from servers.browser_guard import BrowserGuard
from servers.catalog import ENDPOINTS, CatalogApp, refused
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.protocol.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "hunter2-Tr0ub4dor-and-3"
SECRETS = {"s3.access-key-id": "AKIA-not-yours", "s3.secret-access-key": "wJalrXUtnFEMI"}
ROWS = pa.table({"id": [1, 2, 3], "carrier": ["UA", None, "B6"]})
NAMESPACES = "/v1/{prefix}/namespaces"
TABLE = f"{NAMESPACES}/{{namespace}}/tables/{{table}}"
VIEW = f"{NAMESPACES}/{{namespace}}/views/{{view}}"
# All of the protocol's operations (rest-catalog-open-api.yaml), and a method that it has nowhere.
OPERATIONS = [
    "GET /v1/config",
    "POST /v1/oauth/tokens",
    *(f"{method} {NAMESPACES}" for method in ("GET", "POST")),
    *(f"{method} {NAMESPACES}/{{namespace}}" for method in ("GET", "HEAD", "DELETE")),
    f"POST {NAMESPACES}/{{namespace}}/properties",
    *(f"{method} {NAMESPACES}/{{namespace}}/tables" for method in ("GET", "POST")),
    f"POST {NAMESPACES}/{{namespace}}/register",
    *(f"{method} {TABLE}" for method in ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS")),
    f"GET {TABLE}/credentials",
    f"POST {TABLE}/sign",
    f"POST {TABLE}/metrics",
    f"POST {TABLE}/plan",
    *(f"{method} {TABLE}/plan/1" for method in ("GET", "DELETE")),
    f"POST {TABLE}/tasks",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    *(f"{method} {NAMESPACES}/{{namespace}}/views" for method in ("GET", "POST")),
    f"POST {NAMESPACES}/{{namespace}}/register-view",
    *(f"{method} {VIEW}" for method in ("GET", "HEAD", "POST", "DELETE")),
    "POST /v1/{prefix}/views/rename",
    "GET /", "GET /v1/namespaces/", "GET /v1/namespaces/lake/tables/", "GET /v2/config",
]  # fmt: skip


@pytest.fixture
def catalog(sqlite_catalog_properties: dict[str, str]) -> Iterator[SqlCatalog]:
    """What is served: a table of two snapshots, and namespaces of several levels."""
    catalog = SqlCatalog("lake", **sqlite_catalog_properties)
    for namespace in ("lake", "lake.inner", "lake.inner.most", "other"):
        catalog.create_namespace(namespace, {"owner": "the team"})
    for name in ("lake.flights", "lake.inner.most.deep"):
        table = catalog.create_table(name, ROWS.schema, properties={"sluice.offsets": '{"0": 6}'})
        table.append(ROWS)
        table.append(ROWS)
    yield catalog
    catalog.close()


@pytest.fixture
def config(tmp_path: Path, sqlite_catalog_properties: dict[str, str]) -> SluiceConfig:
    """A configuration of that catalog, with keys of a storage."""
    properties = {**sqlite_catalog_properties, **SECRETS}
    return SluiceConfig(
        home=str(tmp_path),
        state=str(tmp_path / "log"),
        catalog=CatalogSettings(name="lake", properties=properties),
    )


@pytest.fixture
def client(catalog: SqlCatalog, config: SluiceConfig) -> Iterator[httpx.Client]:
    """Someone who asks what ``./sluice catalog`` serves."""
    with asking(config) as client:
        yield client


@contextmanager
def asking(config: SluiceConfig, *tokens: str) -> Iterator[httpx.Client]:
    """A client of a real server."""
    with listening(config, *tokens) as uri, httpx.Client(base_url=uri, trust_env=False) as client:
        yield client


@contextmanager
def listening(config: SluiceConfig, *tokens: str) -> Iterator[str]:
    """The address of a real server."""
    app = BrowserGuard(CatalogApp(config), tokens=tokens, refused=refused)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def told(answer: Any) -> tuple[int, str]:
    """Status and type of an error, whose form is the protocol's."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["code"] == answer.status_code
    return answer.status_code, error["type"]


def filled(operation: str) -> tuple[str, str]:
    """Method and path of an operation on something that is there."""
    method, path = operation.split()
    names = {"/{prefix}": "", "{namespace}": "lake", "{table}": "flights", "{view}": "flights"}
    for name, value in names.items():
        path = path.replace(name, value)
    return method, path


def test_what_is_not_listed_is_refused_and_changes_nothing(client: httpx.Client, catalog: SqlCatalog) -> None:
    """All operations of the protocol: those of `endpoints` are answered, 403 for the rest, JSON or not."""
    before = catalog.load_table("lake.flights").metadata_location
    listed = client.get("/v1/config").json()["endpoints"]
    assert listed == list(ENDPOINTS)
    assert set(listed) < set(OPERATIONS)
    for operation in OPERATIONS:
        method, path = filled(operation)
        for body in (None, {"name": "x", "updates": [], "requirements": []}):
            answer = client.request(method, path, json=body)
            if operation in listed:
                assert answer.status_code in {200, 204}, operation
            else:
                assert answer.status_code == 403, operation
                assert method == "HEAD" or told(answer) == (403, "ForbiddenException"), operation
    assert catalog.load_table("lake.flights").metadata_location == before
    assert sorted(catalog.list_tables("lake")) == [("lake", "flights")]


@pytest.mark.parametrize("tokens", [(), (TOKEN,)], ids=["open", "with tokens"])
def test_a_client_with_a_credential_is_told_to_set_a_token(
    config: SluiceConfig, tokens: tuple[str, ...]
) -> None:
    """It asks for a login by a form, which there is none of; it was told to send JSON."""
    with listening(config, *tokens) as uri, pytest.raises(Exception, match="sets `token`"):
        RestCatalog("any", uri=uri, credential="me:secret")


def test_namespaces_of_several_levels_are_listed_level_by_level(client: httpx.Client) -> None:
    """Levels go by the unit separator, encoded once as the protocol says, or twice as PyIceberg does."""
    assert client.get("/v1/namespaces").json() == {
        "namespaces": [["lake"], ["other"]],
        "next-page-token": None,
    }
    assert client.get("/v1/namespaces?parent=").json()["namespaces"] == [["lake"], ["other"]]
    assert client.get("/v1/namespaces?parent=lake").json()["namespaces"] == [["lake", "inner"]]
    for inner in ("lake%1Finner", "lake%251Finner"):
        assert client.get(f"/v1/namespaces?parent={inner}").json()["namespaces"] == [
            ["lake", "inner", "most"]
        ]
    assert client.get("/v1/namespaces/lake%1Finner").json() == {
        "namespace": ["lake", "inner"],
        "properties": {"owner": "the team"},
    }
    assert client.get("/v1/namespaces/lake%1Finner%1Fmost/tables").json()["identifiers"] == [
        {"namespace": ["lake", "inner", "most"], "name": "deep"}
    ]


def test_lists_come_by_pages_to_who_asks_for_pages(client: httpx.Client, catalog: SqlCatalog) -> None:
    """Without a token all at once; by pages each name once, also when one is born between two pages."""
    for name in ("a", "b", "d", "z"):
        catalog.create_table(f"other.{name}", ROWS.schema)
    url = "/v1/namespaces/other/tables"
    assert len(client.get(f"{url}?pageSize=2").json()["identifiers"]) == 4
    first = client.get(f"{url}?pageSize=2&pageToken=").json()
    catalog.create_table("other.c", ROWS.schema)
    second = client.get(f"{url}?pageSize=2&pageToken={first['next-page-token']}").json()
    third = client.get(f"{url}?pageSize=2&pageToken={second['next-page-token']}").json()
    pages = [[each["name"] for each in page["identifiers"]] for page in (first, second, third)]
    assert pages == [["a", "b"], ["c", "d"], ["z"]]
    assert third["next-page-token"] is None
    levels = client.get("/v1/namespaces?pageSize=1&pageToken=").json()
    assert levels == {"namespaces": [["lake"]], "next-page-token": "lake"}
    for size in ("0", "-1", "many", ""):
        assert told(client.get(f"{url}?pageSize={size}&pageToken=")) == (400, "BadRequestException")


def test_what_is_not_there_is_told_as_the_protocol_does(client: httpx.Client) -> None:
    """A namespace, a parent, a table, one in no namespace; without a body where only existence is asked."""
    for path in ("nothing", "nothing/tables", "lake%1F%1Finner"):
        assert told(client.get(f"/v1/namespaces/{path}")) == (404, "NoSuchNamespaceException")
    assert told(client.get("/v1/namespaces?parent=nothing")) == (404, "NoSuchNamespaceException")
    for path in (
        "lake/tables/nothing",
        "nothing/tables/flights",
        "lake%1F/tables/flights",
        "a%2Fb/tables/%2F",
    ):
        assert told(client.get(f"/v1/namespaces/{path}")) == (404, "NoSuchTableException")
        assert client.head(f"/v1/namespaces/{path}").status_code == 404
    assert client.head("/v1/namespaces/nothing").status_code == 404
    assert (there := client.head("/v1/namespaces/lake/tables/flights")).status_code == 204
    assert (there.content, client.head("/v1/namespaces/lake").status_code) == (b"", 204)


def test_a_table_is_told_with_all_snapshots_or_those_of_its_refs(
    client: httpx.Client, catalog: SqlCatalog
) -> None:
    """`snapshots=refs` leaves out what no branch or tag names, and nothing else."""
    url = "/v1/namespaces/lake/tables/flights"
    whole, short = client.get(url).json(), client.get(f"{url}?snapshots=refs").json()
    assert client.get(f"{url}?snapshots=all").json() == whole
    table = catalog.load_table("lake.flights")
    assert whole["metadata-location"] == table.metadata_location
    assert whole["metadata"]["properties"]["sluice.offsets"] == '{"0": 6}'
    assert [len(each["metadata"].pop("snapshots")) for each in (whole, short)] == [2, 1]
    assert whole == short
    assert told(client.get(f"{url}?snapshots=some")) == (400, "BadRequestException")


def test_no_secret_of_the_configuration_is_in_any_answer(client: httpx.Client, config: SluiceConfig) -> None:
    """Not in `config`, asked for by delegation too, nor where the catalog fails; a table brings none."""
    delegated = {"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"}
    texts = []
    for operation in OPERATIONS:
        method, path = filled(operation)
        texts.append(client.request(method, path, headers=delegated).text)
    loaded = client.get("/v1/namespaces/lake/tables/flights", headers=delegated).json()
    assert (loaded["config"], set(loaded)) == ({}, {"metadata-location", "metadata", "config"})
    assert client.get("/v1/config?warehouse=any").json().items() >= {"defaults": {}, "overrides": {}}.items()
    failing = {"uri": f"postgresql://sluice:{SECRETS['s3.secret-access-key']}@127.0.0.1:1/lake", **SECRETS}
    away = config.model_copy(update={"catalog": CatalogSettings(name="lake", properties=failing)})
    with asking(away) as unlucky:
        answer = unlucky.get("/v1/namespaces")
    assert answer.status_code in {500, 503}
    for secret in SECRETS.values():
        assert all(secret not in text for text in (*texts, answer.text))


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (RetryableError("away", code="catalog-away", hint="-"), 503, "ServiceUnavailableException"),
        (ConfigError("wrong", code="catalog-settings", hint="-"), 500, "InternalServerError"),
        (sqlite3.OperationalError("disk I/O error at /secret/place"), 503, "ServiceUnavailableException"),
    ],
)
def test_a_catalog_that_is_away_is_told_so(
    config: SluiceConfig, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, kind: str
) -> None:
    """In the protocol's form, with the code and no place of ours; `config` is answered all the same."""

    def fail(_: SluiceConfig) -> None:
        raise error

    monkeypatch.setattr(served_catalog, "open_catalog", fail)
    with asking(config) as client:
        answer = client.get("/v1/namespaces/lake/tables/flights")
        assert client.get("/v1/config").status_code == 200
    assert told(answer) == (status, kind)
    assert "/secret/place" not in answer.text


def test_strangers_are_told_in_the_protocols_form(catalog: SqlCatalog, config: SluiceConfig) -> None:
    """Without the token 401, asked under a foreign name or from a foreign page 403; with it as ever."""
    with asking(config, TOKEN) as client:
        known = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/v1/config", headers=known).status_code == 200
        for headers in ({}, {"Authorization": "Bearer hunter2"}):
            assert told(client.get("/v1/config", headers=headers)) == (401, "NotAuthorizedException")
            assert told(client.delete("/v1/namespaces/lake", headers=headers)) == (
                401,
                "NotAuthorizedException",
            )
        foreign = [{"Host": "evil.example"}, {"Origin": "http://evil.example"}]
        for headers in foreign:
            assert told(client.post("/v1/namespaces", headers=known | headers)) == (403, "ForbiddenException")
        assert told(client.get("/v1/config", headers=known | foreign[0])) == (403, "ForbiddenException")


def test_pyiceberg_reads_through_it_what_it_reads_directly(catalog: SqlCatalog, config: SluiceConfig) -> None:
    """Names, properties, metadata and rows; a commit is seen by the next load; writes are refused."""
    with listening(config, TOKEN) as uri:
        rest = RestCatalog("any", uri=uri, token=TOKEN)
        assert sorted(rest.list_namespaces()) == sorted(catalog.list_namespaces())
        assert rest.list_namespaces("lake.inner") == [("lake", "inner", "most")]
        assert rest.load_namespace_properties("lake.inner") == {"owner": "the team"}
        for name in ("lake.flights", "lake.inner.most.deep"):
            direct, through = catalog.load_table(name), rest.load_table(name)
            assert through.metadata == direct.metadata
            assert through.metadata_location == direct.metadata_location
            assert through.scan().to_arrow() == direct.scan().to_arrow()
        catalog.load_table("lake.flights").append(ROWS)
        assert rest.load_table("lake.flights").scan().count() == 9
        assert rest.table_exists("lake.flights")
        assert not rest.table_exists("lake.nothing")
        assert not rest.namespace_exists("nothing")
        with pytest.raises(NoSuchTableError):
            rest.load_table("lake.nothing")
        with pytest.raises(NoSuchNamespaceError):
            rest.list_tables("nothing")
        _refuses_writes(rest)
        with pytest.raises(UnauthorizedError):
            RestCatalog("any", uri=uri)
    assert catalog.load_table("lake.flights").scan().count() == 9


def _refuses_writes(rest: RestCatalog) -> None:
    table = rest.load_table("lake.flights")
    writes: list[Callable[[], object]] = [
        lambda: table.append(ROWS),
        lambda: rest.create_table("lake.new", ROWS.schema),
        lambda: rest.drop_table("lake.flights"),
        lambda: rest.rename_table("lake.flights", "lake.new"),
        lambda: rest.create_namespace("new"),
        lambda: rest.drop_namespace("other"),
        lambda: rest.update_namespace_properties("lake", updates={"a": "b"}),
    ]
    for write in writes:
        with pytest.raises(NotImplementedError, match="does not support"):
            write()
    rest._supported_endpoints |= {
        *map(Endpoint.from_string, OPERATIONS[:-4])
    }  # as a client that does not look
    for write in writes:
        with pytest.raises(ForbiddenError):
            write()


def test_pyiceberg_is_told_of_a_catalog_that_is_away(
    config: SluiceConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the outage it is, and goes on when the catalog is back."""

    def fail(_: SluiceConfig) -> None:
        raise RetryableError("away", code="catalog-away", hint="-")

    with listening(config) as uri:
        rest = RestCatalog("any", uri=uri)
        with monkeypatch.context() as patch:
            patch.setattr(served_catalog, "open_catalog", fail)
            with pytest.raises(ServiceUnavailableError):
                rest.list_namespaces()
        assert rest.list_namespaces() == []


NAMES = st.text(
    st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters=".%"), min_size=1, max_size=8
)
TYPES = st.sampled_from(
    [
        *(pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.timestamp("us", "UTC"), pa.date32()),
        *(pa.decimal128(20, 4), pa.binary(), pa.list_(pa.string()), pa.map_(pa.string(), pa.float32())),
        pa.struct([("inner", pa.int32())]),
    ]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SqlCatalog, str]]:
    """A catalog, and where it is served."""
    folder = tmp_path_factory.mktemp("lake")
    own = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder / "warehouse")}
    settings = CatalogSettings(name="lake", properties=own)
    with listening(SluiceConfig(home=str(folder), state=str(folder / "log"), catalog=settings)) as uri:
        catalog = SqlCatalog("lake", **own)
        yield catalog, uri
        catalog.close()


@settings(max_examples=8)
@given(
    # PyIceberg refuses a namespace of spaces alone.
    namespace=st.lists(NAMES.filter(str.strip), min_size=1, max_size=3),
    name=NAMES,
    columns=st.dictionaries(NAMES, TYPES, min_size=1, max_size=5),
    properties=st.dictionaries(st.text(st.characters(blacklist_categories=["Cs"])), NAMES, max_size=3),
    commits=st.integers(0, 2),
)
def test_any_table_is_the_same_through_it(
    served: tuple[SqlCatalog, str],
    *,
    namespace: list[str],
    name: str,
    columns: dict[str, Any],
    properties: dict[str, str],
    commits: int,
) -> None:
    """Whatever its name, columns, partitioning, properties and history: PyIceberg loads equal metadata."""
    catalog, uri = served
    levels = (uuid4().hex, *namespace)
    identifier = (*levels, name)
    catalog.create_namespace(levels)
    schema = pa.schema([("id", pa.int64()), *((f"{column}_", kind) for column, kind in columns.items())])
    location = f"{catalog.properties['warehouse']}/{levels[0]}"
    made = catalog.create_table(identifier, schema, location, properties=properties)
    for commit in range(commits):
        made.update_spec().add_field("id", BucketTransform(commit + 2), f"by_{commit}").commit()
        made.append(schema.empty_table())
    rest = RestCatalog("any", uri=uri)
    assert rest.load_table(identifier).metadata == catalog.load_table(identifier).metadata
    assert rest.list_tables(levels) == [identifier]
    # As Java writes a name in a path: a space is a plus.
    parts = [quote(part, safe="").replace("%20", "+") for part in identifier]
    path = f"/v1/namespaces/{'%1F'.join(parts[:-1])}/tables/{parts[-1]}"
    assert httpx.head(uri + path, trust_env=False).status_code == 204
