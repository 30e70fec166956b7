"""What is leaned on in PyIceberg without being promised: a new version that changes it must fail here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import PyArrowFileIO, _read_all_delete_files
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetPropertiesUpdate
from requests import Session

from tests.support.foreign_deletes import delete_by_position

if TYPE_CHECKING:
    from tests.support.lake import Lake


def test_a_transaction_keeps_its_updates_and_requirements(sqlite_lake: Lake) -> None:
    """Under these private names, with the snapshot id known before the commit."""
    table = sqlite_lake.make_table()
    transaction = table.transaction()
    with transaction.update_snapshot(snapshot_properties={"sluice.x": "y"}).fast_append() as append:
        pass
    transaction.set_properties({"a": "b"})
    kinds = [type(update) for update in transaction._updates]
    assert kinds[0] is AddSnapshotUpdate
    assert kinds[-1] is SetPropertiesUpdate
    assert [type(r) for r in transaction._requirements] == [AssertRefSnapshotId]
    assert transaction._updates[0].snapshot.snapshot_id == append.snapshot_id  # type: ignore[union-attr]
    assert sqlite_lake.load().metadata.current_snapshot_id == table.metadata.current_snapshot_id


def test_a_catalog_commits_what_it_is_given(sqlite_lake: Lake) -> None:
    """``commit_table`` is public, takes requirements before updates, and never retries."""
    parameters = list(inspect.signature(sqlite_lake.open().commit_table).parameters)
    assert parameters == ["table", "requirements", "updates"]


def test_the_parquet_writer_takes_row_groups_and_gives_statistics() -> None:
    """``FileFormatFactory``'s writer is the only path that does not hold a whole file."""
    model = FileFormatFactory.get(FileFormat.PARQUET)
    assert list(inspect.signature(model.create_writer).parameters) == [
        "output_file",
        "file_schema",
        "properties",
    ]
    assert callable(DataFile.from_args)


def test_the_rest_client_sends_everything_through_one_session_method() -> None:
    """Timeouts are put there."""
    assert "self._config_headers(session)" in inspect.getsource(RestCatalog._create_session)
    assert {"_init_sigv4", "_config_headers"} <= vars(RestCatalog).keys()
    assert "return self.request(" in inspect.getsource(Session.post)
    assert "return self.request(" in inspect.getsource(Session.get)


def test_azures_account_is_taken_for_a_part_of_the_container() -> None:
    """Once it is not, ``storage/arrow_file_io.py`` need not take it out (apache/iceberg-python#2698)."""
    location = "abfss://lake@account.dfs.core.windows.net/t"
    assert PyArrowFileIO.parse_location(location)[2] == "lake@account.dfs.core.windows.net/t"


def test_delete_files_are_read_as_positions_by_data_file(sqlite_lake: Lake) -> None:
    """A replay leaves deleted rows out by them: of all tasks' delete files, by the data file's very path."""
    assert list(inspect.signature(_read_all_delete_files).parameters) == ["io", "tasks"]
    sqlite_lake.make_table()
    sqlite_lake.drain(0, 10)
    table = sqlite_lake.load()
    (task,) = table.scan().plan_files()
    assert _read_all_delete_files(table.io, [task]) == {}
    for positions in ((1, 4), (7,)):
        delete_by_position(sqlite_lake.load(), task.file.file_path, positions)
    (task,) = sqlite_lake.load().scan().plan_files()
    found = _read_all_delete_files(table.io, [task])
    assert list(found) == [task.file.file_path]
    (columns,) = found.values()
    assert {(type(column), column.type) for column in columns} == {(pa.ChunkedArray, pa.int64())}
    assert sorted(column.to_pylist() for column in columns) == [[1, 4], [7]]
