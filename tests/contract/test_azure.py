"""Azure's storage, by its emulator Azurite: what a put of the log and each right mean there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import TYPE_CHECKING

import pytest

from prove.lab.http_proxy import HttpProxy
from spark_jobs.preview.reachability import try_storage
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.storage.arrow_file_io import ArrowFileIO
from spark_jobs.storage.create_only import CreateOnlyStore, list_files
from tests.support.lake import Lake

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.azurite import Azure
    from prove.lab.http_proxy import Client, Request

MATCHES = "If-None-Match"


class PausingProxy(HttpProxy):
    """Keeps the first put until ``goes_on``; a lax one forgets what it may not replace."""

    def __init__(self, upstream: str, *, is_lax: bool = False) -> None:
        super().__init__(upstream)
        self._is_lax = is_lax
        self.paused, self.goes_on = Event(), Event()

    def serve(self, request: Request, client: Client) -> None:
        assert request.headers[MATCHES] == "*"
        if self._is_lax:
            del request.headers[MATCHES]
        if not self.paused.is_set():
            self.paused.set()
            assert self.goes_on.wait(60)
        client.answer(self.pass_on(request))


def zombies_put(azure: Azure, *, is_lax: bool) -> tuple[bool, str | None]:
    """Whether a writer that was paused inside its put says that it created the object, and what it holds."""
    with PausingProxy(azure.endpoint, is_lax=is_lax) as proxy, ThreadPoolExecutor(1) as thread:
        address = {"adls.blob-storage-authority": proxy.url.removeprefix("http://")}
        # Signed in the address: a key's signature would cover the header.
        zombie = CreateOnlyStore(azure.location("log"), azure.shared() | address)
        put = thread.submit(zombie.create, "phase", "zombie")
        assert proxy.paused.wait(60)
        other = CreateOnlyStore(azure.location("log"), azure.properties)
        assert other.create("phase", "other")
        proxy.goes_on.set()
        return put.result(60), other.read("phase")


def test_a_zombie_inside_a_put_does_not_replace(azure: Azure) -> None:
    """Its request has left, another run creates the object, then the request arrives."""
    assert zombies_put(azure, is_lax=False) == (False, "other")


def test_without_the_condition_a_zombie_would_replace(azure: Azure) -> None:
    """So the test above tests Azure's comparison."""
    assert zombies_put(azure, is_lax=True) == (True, "zombie")


def test_a_lake_on_azure_keeps_what_it_is_given(azure: Azure, tmp_path: Path) -> None:
    """Tables with dead letters, in locations as Azure writes them, by a SAS token too."""
    uri = f"sqlite:///{tmp_path / 'catalog.db'}"
    warehouse = azure.location("lake")
    lake = Lake("sqlite", {"type": "sql", "uri": uri, "warehouse": warehouse, **azure.properties}, "ns")
    lake.make_table()
    lake.drain(0, 10, dead_letters=[3])
    shared = {"type": "sql", "uri": uri, "warehouse": warehouse, **azure.shared()}
    lake = Lake("sqlite", shared, "ns")
    lake.drain(10, 20)
    assert lake.offsets() == [n for n in range(20) if n != 3]
    table = lake.load()
    files = {file.location for file in list_files(table.location(), table.io.properties)}
    assert {task.file.file_path for task in table.scan().plan_files()} < files
    assert table.location().startswith(warehouse)


@pytest.mark.parametrize(
    ("rights", "step"),
    [("rcwdl", None), ("rl", "put"), ("cwdl", "get"), ("rcwd", "list"), ("rcwl", "delete")],
)
def test_each_missing_right_is_named(azure: Azure, rights: str, step: str | None) -> None:
    """By what could not be done, never with the token's signature."""
    properties = azure.shared(rights)
    if step is None:
        try_storage(azure.location("lake"), properties)
        return
    with pytest.raises(ConfigError, match=f"the storage did not {step} a test file") as raised:
        try_storage(azure.location("lake"), properties)
    assert "AuthorizationPermissionMismatch" in raised.value.message
    assert properties["adls.sas-token"].rpartition("sig=")[2] not in raised.value.message
    assert "role Storage Blob Data Contributor" in raised.value.hint


def test_what_azure_refuses_has_a_name(azure: Azure) -> None:
    """A container that is missing, a token that is over, a location without an account."""
    gone = azure.location("log").replace(azure.container, f"{azure.container}-gone")
    codes = {}
    for name, root, properties in (
        ("gone", gone, azure.properties),
        ("over", azure.location("log"), azure.shared(until="2020-01-01T00:00:00Z")),
    ):
        store = CreateOnlyStore(root, properties)
        for asked in (partial(store.create, "a", "b"), partial(store.list, "")):
            with pytest.raises(ConfigError) as raised:
                asked()
            codes.setdefault(name, set()).add(raised.value.code)
    assert codes == {"gone": {"no-bucket"}, "over": {"log-store-refused"}}
    with pytest.raises(ConfigError) as raised:
        CreateOnlyStore(f"abfss://{azure.container}/log", azure.properties)
    assert raised.value.code == "azure-location"


def test_an_identity_that_gets_no_token_does_not_end_the_process(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow ends it with the first read or write; asked for facts of a file, it only fails."""
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:1/")
    login = {"adls.client-id": "c", "adls.client-secret": "s", "adls.tenant-id": "t"}
    own = {key: value for key, value in azure.properties.items() if key != "adls.account-key"}
    with pytest.raises(PermissionError, match="AuthenticationException"):  # only https may have tokens
        ArrowFileIO(own | login).new_input(azure.location("x")).open()
