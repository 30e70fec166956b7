"""What each catalog keeps and compares, by the trial that ``check --deep`` makes."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import CommitTableResponse, StagedTable

from spark_jobs.preview import catalog_trial
from spark_jobs.preview.catalog_trial import refuse_unfit, try_catalog
from spark_jobs.protocol.errors import ConfigError, SluiceError
from spark_jobs.storage.create_only import list_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from tests.support.lake import Lake

LACKS = {"nessie": {"compares_null", "shows_history"}}


def test_what_a_catalog_keeps_is_as_documented(lake: Lake) -> None:
    """Every catalog has what commits need; nothing is left in it or in its storage."""
    lake.make_table()
    before = files_of(lake)
    answers = try_catalog(lake.open, lake.namespace)
    assert {name for name, has in asdict(answers).items() if not has} == LACKS.get(lake.kind, set())
    refuse_unfit(answers)
    assert len(lake.open().list_tables(lake.namespace)) == 2
    assert files_of(lake) == before


def files_of(lake: Lake) -> set[str]:
    """All files in the folder of the lake's tables."""
    table = lake.load()
    return {file.location for file in list_files(table.location().rpartition("/")[0], table.io.properties)}


def wrapped(lake: Lake, **methods: Callable[..., Any]) -> Callable[[], Catalog]:
    """The lake's catalog with other methods, each of which gets the catalog's own first."""

    def opened() -> Catalog:
        catalog = lake.open()
        for name, method in methods.items():
            setattr(catalog, name, partial(method, getattr(catalog, name)))
        return catalog

    return opened


def cut_off(load: Callable[[str], Table], identifier: str) -> Table:
    """Load a table as a metastore does that keeps 4,000 characters of a property."""
    table = load(identifier)
    cut = {name: value[:4000] for name, value in table.metadata.properties.items()}
    table.metadata = table.metadata.model_copy(update={"properties": cut})
    return table


def last_one_wins(
    own: Callable[..., Any], table: Table, requirements: Any, updates: Any
) -> CommitTableResponse:
    """Put what was made of the table as the committer knows it in the place of whatever is there."""
    catalog = own.__self__
    if isinstance(table, StagedTable):
        return own(table, requirements, updates)
    staged = catalog._update_and_stage_table(table, table.name(), (), updates)
    catalog._write_metadata(staged.metadata, staged.io, staged.metadata_location)
    catalog.drop_table(table.name())
    catalog.register_table(table.name(), staged.metadata_location)
    return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)


@pytest.mark.parametrize(
    ("methods", "code"),
    [
        ({"load_table": cut_off}, "catalog-keeps-no-properties"),
        ({"commit_table": last_one_wins}, "catalog-swaps-without-comparing"),
    ],
    ids=["cuts properties off", "compares nothing"],
)
def test_a_catalog_that_loses_commits_is_refused(
    sqlite_lake: Lake, methods: dict[str, Callable[..., Any]], code: str
) -> None:
    """By the name of what it lacks."""
    with pytest.raises(ConfigError) as caught:
        refuse_unfit(try_catalog(wrapped(sqlite_lake, **methods), sqlite_lake.namespace), catalog="lax")
    assert (caught.value.code, caught.value.where) == (code, {"catalog": "lax"})
    assert not sqlite_lake.open().namespace_exists(sqlite_lake.namespace)


def test_nothing_of_a_failed_trial_is_left(sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its tables, nor their files, nor the namespace that it created."""

    def fail(*_: object) -> None:
        raise OSError("the storage does not answer")

    monkeypatch.setattr(catalog_trial, "_keeps_summaries", fail)
    with pytest.raises(SluiceError, match="the storage does not answer"):
        try_catalog(sqlite_lake.open, sqlite_lake.namespace)
    assert not sqlite_lake.open().namespace_exists(sqlite_lake.namespace)
    warehouse = Path(sqlite_lake.properties["warehouse"].removeprefix("file://"))
    assert [path for path in warehouse.rglob("*") if path.is_file()] == []
