"""A table's figures on every catalog: what is counted, and what the catalog allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.tables import progress_of
from spark_jobs.schema.declared import table_notes
from spark_jobs.upkeep.figures import MIN_FILES_TO_MERGE
from spark_jobs.upkeep.read_figures import snapshot_figures, table_figures

if TYPE_CHECKING:
    from tests.support.lake import Lake


def test_figures_of_small_commits(lake: Lake) -> None:
    """Files, rows, manifests and snapshots are counted; too few files of a partition are not mergeable."""
    lake.make_table()
    for n in range(MIN_FILES_TO_MERGE - 1):
        lake.drain(n * 10, n * 10 + 10)
    few = table_figures(lake.load())
    assert (few.data_files, few.small_files, few.mergeable_small_files) == (4, 4, 0)
    assert (few.rows, few.manifests, few.small_manifests, few.delete_files) == (40, 4, 4, 0)
    lake.drain(40, 50)
    table = lake.load()
    enough = table_figures(table)
    assert (enough.data_files, enough.mergeable_small_files, enough.medium_files) == (5, 5, 0)
    sizes = table.inspect.files()["file_size_in_bytes"].to_pylist()
    assert enough.bytes == sum(sizes)
    assert snapshot_figures(table.metadata, few).data_files == 4


def test_a_catalog_with_its_own_history_is_known_by_its_table(lake: Lake) -> None:
    """Nessie shows no parent of main and forbids collecting; upkeep leaves both to it."""
    lake.make_table()
    first = table_figures(lake.load())
    lake.drain(0, 10)
    lake.drain(10, 20)
    figures = table_figures(lake.load())
    is_nessie = lake.kind == "nessie"
    assert (first.shows_history, figures.shows_history) == (True, not is_nessie)
    assert figures.keeps_garbage is is_nessie
    assert figures.expirable_snapshots == (0 if is_nessie else 2)


def test_a_table_that_may_collect_nothing_says_so(sqlite_lake: Lake) -> None:
    """Its expiry would end without a word; upkeep and `check` leave it to the catalog, and tell that."""
    sqlite_lake.make_table(properties={"gc.enabled": "false"})
    table = sqlite_lake.load()
    pipeline = PipelineConfig(name="orders", topic="orders", table=sqlite_lake.name())
    (note,) = table_notes(pipeline, table, progress_of(table))
    assert note.startswith("gc.enabled is false")
    assert table_figures(table).keeps_garbage


def test_a_tagged_snapshot_is_not_expirable(lake_with_history: Lake) -> None:
    """What a person holds by name does not make expiry due."""
    lake = lake_with_history
    lake.make_table()
    lake.drain(0, 10)
    table = lake.load()
    assert table_figures(table).expirable_snapshots == 1
    oldest = min(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number)
    table.manage_snapshots().create_tag(oldest.snapshot_id, "kept").commit()
    assert table_figures(lake.load()).expirable_snapshots == 0
