"""Which stores are opened for conditional puts, and by which credentials."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_jobs.storage.conditional_put import conditional_store

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = {"gcs.oauth2.token": "token", "gcs.service.host": "http://127.0.0.1:1"}


def test_google_buckets_are_opened_by_token() -> None:
    """A token and an address among the catalog's properties open a bucket."""
    opened = conditional_store("gs", "lake", TOKEN)
    assert opened is not None
    assert opened._store.config == {
        "bucket": "lake", "base_url": "http://127.0.0.1:1", "bearer_token": "token",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "is_opened"), [("authorized_user", True), ("external_account", False), ("", False)]
)
def test_federated_credentials_are_arrows_alone(
    kind: str, *, is_opened: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of credentials that obstore cannot read opens no bucket, unless a token is given."""
    file = tmp_path / "credentials.json"
    file.write_text(json.dumps({"type": kind, "client_id": "i", "client_secret": "s", "refresh_token": "r"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert (conditional_store("gs", "lake", {}) is not None) is is_opened
    assert conditional_store("gs", "lake", TOKEN) is not None


def test_other_stores_are_not_opened() -> None:
    """A scheme without an entry has no conditional puts."""
    assert conditional_store("oss", "lake", TOKEN) is None


@pytest.mark.parametrize(
    ("login", "settings"),
    [
        ({"adls.account-key": "a2V5"}, {"account_key": "a2V5", "credential_type": "access_key"}),
        ({"adls.sas-token": "sp=r&sig=x"}, {"sas_key": "?sp=r&sig=x", "credential_type": "sas_token"}),
        (
            {"adls.sas-token.lake.dfs.core.windows.net": "?sp=r&sig=x"},  # as catalogs vend it
            {"sas_key": "?sp=r&sig=x", "credential_type": "sas_token"},
        ),
        (
            {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
            {"tenant_id": "t", "client_id": "c", "client_secret": "s", "credential_type": "client_secret"},
        ),
        ({}, {}),  # a workload's or a managed identity, which obstore finds as Arrow does
    ],
)
def test_azure_containers_are_opened_by_each_login(login: dict[str, str], settings: dict[str, str]) -> None:
    """The account and its cloud are the location's; what proves a login is never another's."""
    opened = conditional_store("abfss", "box@lake.dfs.core.windows.net", {"adls.account-name": "x", **login})
    assert opened is not None
    assert opened._store.config == {
        "container_name": "box",
        "account_name": "lake",
        "endpoint": "https://lake.blob.core.windows.net",
        **settings,
    }
