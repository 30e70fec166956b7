"""Logins to a REST catalog, and credentials for the store that it vends: each ends in the middle of work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from prove.lab.catalog_guard import (
    CLIENT_ID,
    CLIENT_SECRET,
    SignatureGuard,
    TokenGuard,
    VendedStore,
    VendingProxy,
)
from prove.lab.fault_proxy import is_table_commit
from prove.lab.harm_proxy import Harm, HarmProxy
from prove.lab.http_proxy import Client, HttpProxy, Request, Response
from spark_jobs.commit import swap as landing
from spark_jobs.commit.batch_commit import DrainCommit
from spark_jobs.lake import rest_catalog
from spark_jobs.protocol.errors import CommitStateUnknown, ConfigError, RetryableError
from tests.support.lake import Lake, write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from spark_jobs.commit.swap import CatalogAccess, Swap

pytestmark = pytest.mark.rest
CREDENTIAL = {"credential": f"{CLIENT_ID}:{CLIENT_SECRET}"}
SIGNED = {
    "rest.sigv4-enabled": "true",
    "rest.signing-name": "glue",
    "client.region": "eu-central-1",
    "client.access-key-id": "AKID",
    "client.secret-access-key": "signing-secret",
}


class Answering(HttpProxy):
    """Answers the next commit with ``status``, 0 to end its connection, having passed it on or not."""

    armed: tuple[int, bool] | None = None
    commits = 0

    def serve(self, request: Request, client: Client) -> None:
        armed = None
        if is_table_commit(request.method, request.path):
            self.commits += 1
            armed, self.armed = self.armed, None
        if armed is None:
            client.answer(self.pass_on(request))
            return
        status, is_passed_on = armed
        if is_passed_on:
            self.pass_on(request)
        if status:
            client.answer(Response(status, (("Content-Type", "text/html"),), b"<p>by a gateway</p>"))
        else:
            client.cut()


def with_login(lake: Lake, uri: str, login: Mapping[str, str]) -> Lake:
    """The lake's catalog behind a guard, with that login."""
    return replace(lake, properties={**lake.properties, "uri": uri, **login})


@pytest.fixture
def tokens(rest_lake: Lake) -> Iterator[TokenGuard]:
    """The catalog, which wants a token of an OAuth client."""
    with TokenGuard(rest_lake.properties["uri"]) as guard:
        yield guard


@pytest.fixture
def signatures(rest_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[SignatureGuard]:
    """The catalog, which verifies signatures as AWS does; this machine has no credentials of its own."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    secret = SIGNED["client.secret-access-key"]
    with SignatureGuard(
        rest_lake.properties["uri"], key="AKID", secret=secret, region="eu-central-1", service="glue"
    ) as guard:
        yield guard


@pytest.fixture
def vended(rest_lake: Lake) -> Iterator[tuple[Lake, VendedStore]]:
    """A lake whose catalog vends credentials with each table, which its store can end."""
    with (
        VendedStore(rest_lake.properties["s3.endpoint"]) as store,
        VendingProxy(rest_lake.properties["uri"], store) as proxy,
    ):
        own = {name: value for name, value in rest_lake.properties.items() if not name.startswith("s3.")}
        yield replace(rest_lake, properties={**own, "uri": proxy.url, "s3.region": "us-east-1"}), store


def test_a_token_that_ends_inside_a_commit_is_asked_for_again(rest_lake: Lake, tokens: TokenGuard) -> None:
    """The commit is refused for it, sent again with the next one, and lands once."""
    lake = with_login(rest_lake, tokens.url, CREDENTIAL)
    lake.make_table()
    lake.drain(0, 10)
    assert tokens.refused == []
    lake.commit(lake.request(10, 20), before_swap=tokens.end_tokens)
    assert [method for method, _ in tokens.refused] == ["POST"]
    assert lake.offsets() == list(range(20))


def test_a_token_that_ends_while_a_table_is_created_is_asked_for_again(
    rest_lake: Lake, tokens: TokenGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the words of the server where it lies and the call that creates it."""
    lake = with_login(rest_lake, tokens.url, CREDENTIAL)
    catalog = type(lake.open())
    commit = catalog.commit_table

    def ended(*arguments: object) -> object:
        tokens.end_tokens()
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog, "commit_table", ended)
    lake.make_table()
    assert {method for method, _ in tokens.refused} >= {"POST"}


@pytest.mark.parametrize("login", [{}, {"credential": f"{CLIENT_ID}:wrong"}, {"token": "ended"}])
def test_a_login_that_is_missing_or_wrong_is_one_error(
    rest_lake: Lake, tokens: TokenGuard, login: dict[str, str]
) -> None:
    """It says which key to write."""
    with pytest.raises(ConfigError) as caught:
        with_login(rest_lake, tokens.url, login).open()
    assert caught.value.code == "catalog-refused"
    assert 'credential: "${CLIENT_ID}:${CLIENT_SECRET}"' in caught.value.hint
    assert "wrong" not in caught.value.message


def test_a_token_endpoint_that_is_silent_does_not_hold_a_run(
    rest_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for as long as for the catalog."""
    monkeypatch.setattr(rest_catalog, "TIMEOUTS_SECONDS", (0.3, 0.3))
    monkeypatch.setattr("prove.lab.harm_proxy.SILENCE_SECONDS", 1.0)
    with HarmProxy(rest_lake.properties["uri"]) as silent:
        silent.suffer(Harm.SILENT)
        login = {**CREDENTIAL, "oauth2-server-uri": f"{silent.url}/token"}
        with pytest.raises(RetryableError) as caught:
            with_login(rest_lake, rest_lake.properties["uri"], login).open()
    assert caught.value.code == "catalog-away"


def test_requests_are_signed_as_aws_wants_them(rest_lake: Lake, signatures: SignatureGuard) -> None:
    """All of a table's creation and commits, by a name that is escaped in addresses too."""
    lake = replace(with_login(rest_lake, signatures.url, SIGNED), namespace=f"{rest_lake.namespace}.in ner")
    lake.make_table()
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))
    assert signatures.verified > 10


@pytest.mark.parametrize(
    ("login", "statuses"),
    [("tokens", (409, 412, 429, 500, 502, 503, 504, 0)), ("signatures", (412, 503, 0))],
    ids=["tokens", "signatures"],
)
def test_each_answer_to_a_commit_is_settled_behind_each_login(
    rest_lake: Lake,
    login: str,
    statuses: tuple[int, ...],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What landed is found, a conflict is staged again, all else is unknown until the next attempt."""
    monkeypatch.setattr(landing, "READ_BACK_PAUSES_SECONDS", (0.0,))
    monkeypatch.setattr(landing, "_pause", lambda _retries: None)
    guard = request.getfixturevalue(login)
    with Answering(guard.url) as gateway:
        lake = with_login(rest_lake, gateway.url, CREDENTIAL if login == "tokens" else SIGNED)
        lake.make_table(dead_letters=False)
        end = 0
        for status in statuses:
            for is_passed_on in (True, False):
                gateway.armed, gateway.commits = (status, is_passed_on), 0
                batch = lake.request(end, end + 1)
                if is_passed_on or status == 409:
                    lake.commit(batch)
                    assert gateway.commits == (1 if is_passed_on else 2), status
                else:
                    with pytest.raises(CommitStateUnknown):
                        lake.commit(batch)
                    assert gateway.commits == 1, status
                    lake.drain(end, end + 1)
                end += 1
        assert lake.offsets() == list(range(end))


def test_what_cannot_be_signed_or_is_signed_wrongly_is_one_error(
    rest_lake: Lake, signatures: SignatureGuard, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """Without credentials, with another secret, without the package."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    keyless = {name: value for name, value in SIGNED.items() if "key" not in name}
    raised = []
    for login in (keyless, {**SIGNED, "client.secret-access-key": "another"}):
        with pytest.raises(ConfigError) as caught:
            with_login(rest_lake, signatures.url, login).open()
        raised.append(caught.value)
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigError) as caught:
        with_login(rest_lake, signatures.url, SIGNED).open()
    assert [error.code for error in (*raised, caught.value)] == [
        "catalog-settings",
        "catalog-refused",
        "extra-missing",
    ]
    assert "signature we calculated" in raised[1].message


def test_vended_credentials_that_end_between_batches_are_asked_for_again(
    vended: tuple[Lake, VendedStore],
) -> None:
    """Each batch, and each commit, has those of the table that it loads."""
    lake, store = vended
    lake.make_table()
    for start in (0, 10):
        store.end_sessions()
        request = lake.request(start, start + 10)
        store.end_sessions()
        lake.commit(request)
    assert lake.offsets() == list(range(20))
    assert store.refused == 0


def test_vended_credentials_that_end_inside_a_batch_are_one_error(
    vended: tuple[Lake, VendedStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, of files or of manifests; the next run asks for new ones and drains the range."""
    lake, store = vended
    lake.make_table()
    table = lake.load()
    store.end_sessions()
    with pytest.raises(RetryableError) as caught:
        write_rows(table, 0, range(10), "attempt")
    codes = [caught.value.code]
    stage = DrainCommit.stage

    def ended(commit: DrainCommit, table: Table, connections: CatalogAccess) -> Swap:
        store.end_sessions()
        return stage(commit, table, connections)

    request = lake.request(0, 10)
    with monkeypatch.context() as patched:
        patched.setattr(DrainCommit, "stage", ended)
        with pytest.raises(RetryableError) as caught:
            lake.commit(request)
    codes.append(caught.value.code)
    assert codes == ["credentials-expired"] * 2
    assert lake.offsets() == []
    lake.commit(request)
    assert lake.offsets() == list(range(10))
