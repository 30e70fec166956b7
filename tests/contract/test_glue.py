"""AWS Glue by its own API: moto's, which compares a table's version here, as AWS does and moto does not."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.exceptions import TableAlreadyExistsError

from spark_jobs.lake.catalog import catalog_error, open_catalog
from spark_jobs.lake.tables import drop_stillborn, load_table
from spark_jobs.preview.catalog_trial import refuse_unfit, try_catalog
from spark_jobs.protocol.errors import CommitConflict, ConfigError
from tests.support.lake import SCHEMA, Lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

pytestmark = pytest.mark.glue
LATER_MS = 10**14


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


def test_a_rename_that_was_cut_off_costs_no_table(glue_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg creates the new name, then drops the old one: a creator that dies between leaves both."""
    lake = glue_lake

    def die(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(GlueCatalog, "drop_table", die)
        with pytest.raises(SystemExit):
            lake.make_table(dead_letters=False)
    assert len(lake.open().list_tables(lake.namespace)) == 2
    (left,) = drop_stillborn(lake.open(), lake.name(), before_ms=LATER_MS)
    assert load_table(lake.open(), left) is None
    snapshot = lake.load().current_snapshot()
    assert snapshot is not None
    assert snapshot.manifests(lake.load().io) == []
    lake.drain(0, 10)
    assert lake.offsets() == list(range(10))


def test_of_two_creators_inside_their_call_one_creates(
    glue_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table can be created with its first snapshot in one call, which Glue itself compares: ADR 55."""
    lake, create, both = glue_lake, GlueCatalog._create_glue_table, Barrier(2)
    lake.open().create_namespace(lake.namespace)

    def paused(catalog: GlueCatalog, **table: Any) -> None:
        both.wait(timeout=60)
        create(catalog, **table)

    monkeypatch.setattr(GlueCatalog, "_create_glue_table", paused)

    def is_created(by: str) -> bool:
        place = f"{lake.properties['warehouse']}/{lake.namespace}/{by}"
        creation = lake.open().create_table_transaction(lake.name(), SCHEMA, place)
        with creation.update_snapshot(snapshot_properties={"by": by}).fast_append():
            pass
        with suppress(TableAlreadyExistsError):
            creation.commit_transaction()
            return True
        return False

    with ThreadPoolExecutor(2) as threads:
        created = dict(zip("ab", threads.map(is_created, "ab"), strict=True))
    snapshot = lake.open().load_table(lake.name()).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert [by for by, is_first in created.items() if is_first] == [snapshot.summary["by"]]


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
