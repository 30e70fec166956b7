"""A store that refuses is told from one that is away: trying again mends only the second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.harm_proxy import Harm, HarmProxy
from spark_jobs.lake.tables import load_table
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.storage.create_only import find_files
from spark_jobs.storage.errors import storage_error
from spark_jobs.txlog.store import TxlogStore
from tests.support.lake import Lake, write_rows
from tests.support.log_entries import TABLE_UUID, make_batch, offset_commit

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.s3 import S3


@pytest.mark.parametrize(
    ("harm", "kind", "code"),
    [
        (Harm.DENIED, ConfigError, "log-store-refused"),
        (Harm.EXPIRED, RetryableError, "credentials-expired"),
        (Harm.ALL_503, RetryableError, "log-store-away"),
        (Harm.ALL_CUT, RetryableError, "log-store-away"),
    ],
)
def test_a_refusal_is_told_from_an_outage(s3: S3, harm: Harm, kind: type[Exception], code: str) -> None:
    """S3's refusals are errors of the set-up, whatever Arrow calls them; outages are worth a retry."""
    with HarmProxy(s3.endpoint) as proxy:
        log = TxlogStore(f"s3://{s3.bucket}/state", {**s3.pyiceberg_properties, "s3.endpoint": proxy.url})
        batch = make_batch()
        entry = offset_commit(batch)
        log.append(TABLE_UUID, batch, entry)
        proxy.suffer(harm)
        for asked in (
            lambda: log.attempts(TABLE_UUID),
            lambda: log.append(TABLE_UUID, make_batch("b"), entry),
        ):
            with pytest.raises(kind) as raised:
                asked()
            assert raised.value.code == code  # type: ignore[attr-defined]
            assert "\n" not in raised.value.message  # type: ignore[attr-defined]


def test_a_bucket_that_is_not_there_is_no_empty_log(s3: S3) -> None:
    """Whatever is asked of it: nobody may take what lay there for finished, or wait for it."""
    store = TxlogStore(f"s3://{s3.bucket}-gone/state", s3.pyiceberg_properties)
    for asked in (
        lambda: store.attempts(TABLE_UUID),
        lambda: store.append(TABLE_UUID, make_batch(), offset_commit(make_batch())),
        lambda: list(find_files(store.root, "attempt", s3.pyiceberg_properties)),
    ):
        with pytest.raises((ConfigError, OSError)) as raised:
            asked()
        error = raised.value
        named = error if isinstance(error, ConfigError) else storage_error(error, "listing files")
        assert named.code == "no-bucket"
        assert "\n" not in named.message
    assert TxlogStore(f"s3://{s3.bucket}/state", s3.pyiceberg_properties).attempts(TABLE_UUID) == ()


def test_credentials_that_end_inside_a_batch_are_worth_a_run(s3: S3, tmp_path: Path) -> None:
    """Its files are refused by that name and nothing is committed; with new ones the range is drained."""
    with HarmProxy(s3.endpoint) as proxy:
        properties = {
            **s3.pyiceberg_properties,
            "type": "sql",
            "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
            "warehouse": f"s3://{s3.bucket}/lake",
            "s3.endpoint": proxy.url,
        }
        lake = Lake("sqlite", properties, "ns")
        table = lake.make_table()
        lake.drain(0, 10)
        proxy.suffer(Harm.EXPIRED)
        with pytest.raises(RetryableError) as raised:
            write_rows(table, 0, range(10, 20), "attempt")
        proxy.suffer(None)
        lake.drain(10, 20)
        assert lake.offsets() == list(range(20))
    assert raised.value.code == "credentials-expired"


def test_a_table_that_its_catalog_signs_for_is_refused(
    sqlite_catalog_properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server says so with the table, when the catalog has long been opened."""
    lake = Lake("sqlite", sqlite_catalog_properties, "ns")
    lake.make_table()
    catalog = lake.open()
    table = catalog.load_table(lake.name())
    table.io.properties["s3.remote-signing-enabled"] = "true"
    monkeypatch.setattr(catalog, "load_table", lambda _: table)
    with pytest.raises(ConfigError) as raised:
        load_table(catalog, lake.name())
    assert raised.value.code == "remote-signing"
