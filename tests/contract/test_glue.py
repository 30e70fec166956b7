"""AWS Glue by its own API: moto's, which compares a table's version here, as AWS does and moto does not."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.glue import GlueCatalog

from spark_jobs.lake.catalog import catalog_error, open_catalog
from spark_jobs.preview.catalog_trial import refuse_unfit, try_catalog
from spark_jobs.protocol.errors import CommitConflict, ConfigError
from tests.support.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

pytestmark = pytest.mark.glue


@pytest.fixture
def lax_lake(glue_lake: Lake) -> Lake:
    """The same with a database in which versions are not compared."""
    return Lake("glue", glue_lake.properties, f"lax_{uuid.uuid4().hex[:10]}")


def two_batches(lake: Lake) -> Callable[[], None]:
    """The same batch by another run, and the next one."""

    def land() -> None:
        lake.drain(0, 10)
        lake.drain(10, 20)

    return land


def during_update(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Pause the next commit once, between PyIceberg's load of the table and its update."""
    update, waiting = GlueCatalog._update_glue_table, [meanwhile]

    def paused(catalog: GlueCatalog, **table: Any) -> None:
        if waiting:
            waiting.pop()()
        update(catalog, **table)

    monkeypatch.setattr(GlueCatalog, "_update_glue_table", paused)


def test_a_zombie_inside_its_commit_does_not_land(glue_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has loaded the table and compared main; then two batches land: Glue has another version."""
    lake = glue_lake
    lake.make_table(dead_letters=False)
    zombie = lake.request(0, 10)
    during_update(monkeypatch, two_batches(lake))
    with pytest.raises(CommitConflict):
        lake.commit(zombie)
    assert lake.offsets() == list(range(20))


def test_without_a_comparison_a_zombie_would_land(lax_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above tests Glue's comparison, and the trial refuses a catalog that has none."""
    lake = lax_lake
    lake.make_table(dead_letters=False)
    zombie = lake.request(0, 10)
    during_update(monkeypatch, two_batches(lake))
    lake.commit(zombie)
    assert lake.offsets() == list(range(10))
    with pytest.raises(ConfigError) as caught:
        refuse_unfit(try_catalog(lake.open, lake.namespace))
    assert caught.value.code == "catalog-swaps-without-comparing"


def test_of_two_creators_inside_their_call_one_creates(
    glue_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked for the table and found none; the other one has the first one's table then."""
    lake, create, both = glue_lake, GlueCatalog._create_glue_table, Barrier(2)
    created: list[bool] = []

    def paused(catalog: GlueCatalog, **table: Any) -> None:
        both.wait(timeout=60)
        created.append(False)
        create(catalog, **table)
        created.append(True)

    monkeypatch.setattr(GlueCatalog, "_create_glue_table", paused)
    with ThreadPoolExecutor(2) as threads:
        tables = list(threads.map(lambda _: lake.make_table(dead_letters=False), range(2)))
    assert sorted(created) == [False, False, True]
    assert len({table.metadata.table_uuid for table in tables}) == 1
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


def test_what_glue_refuses_has_a_name(glue_lake: Lake) -> None:
    """Settings, rights, logins that expired and names that it does not take are no outage."""
    with pytest.raises(ConfigError, match="region") as caught:
        open_catalog("lake", {"type": "glue"})
    assert caught.value.code == "catalog-settings"
    glue = glue_lake.open().glue  # type: ignore[attr-defined]
    codes = {}
    for code in (
        "AccessDeniedException",
        "ExpiredTokenException",
        "InvalidInputException",
        "InternalService",
    ):
        answer = {"Error": {"Code": code, "Message": "no"}}
        error = glue.exceptions.ClientError(answer, "GetTable")
        codes[code] = catalog_error(error, "could not load the table").code
    assert list(codes.values()) == [
        "catalog-refused",
        "credentials-expired",
        "request-refused",
        "catalog-away",
    ]
