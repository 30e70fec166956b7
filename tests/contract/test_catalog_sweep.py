"""What a sweep deletes and spares, however log, metadata and storage spell the place of a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.sweep import sweep_files
from spark_jobs.txlog.entries import FlushStart
from tests.support.lake import write_rows
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spark_jobs.commit.batch_commit import DrainCommit
    from spark_jobs.protocol.batch import WrittenFile
    from tests.support.lake import Lake


def _as_hadoop(path: str) -> str:
    return path.replace("s3://", "s3a://").replace("file:///", "file:/")


def _as_old_hadoop(path: str) -> str:
    return path.replace("s3://", "s3n://").removeprefix("file://")


def _with_dots(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/./../{folder.rpartition('/')[2]}/{name}"


SPELLINGS = [_as_hadoop, _as_old_hadoop]


def _sweep(scene: Scene, spelling: Callable[[str], str]) -> int:
    """Sweep the only attempt, its log read as if the table's place were spelled so."""
    (attempt,) = scene.unfinished()
    begun = attempt.entry(FlushStart)
    assert begun is not None
    respelled = replace(begun, data_location=spelling(begun.data_location))
    entries = tuple(respelled if entry == begun else entry for entry in attempt.entries)
    tables = [scene.lake.load(), scene.dead_letter_table()]
    return sweep_files(replace(attempt, entries=entries), tables, before_delete=lambda: None)


def _expect_stray_alone_swept(lake: Lake, state: str, spelling: Callable[[str], str]) -> None:
    scene = make_scene(lake, state)
    request = scene.leave(0, 10, 3)
    scene.lake.commit(request)
    before = scene.files()
    assert _sweep(scene, spelling) == 0
    write_rows(scene.lake.load(), 0, [1], request.batch.attempt)
    assert _sweep(scene, spelling) == 1
    assert scene.files() == before
    assert scene.lake.offsets() == list(range(10))


def test_a_sweep_spares_what_a_table_owes(sqlite_lake: Lake, tmp_path: Path) -> None:
    """Dead letters that no snapshot names yet are the only ones there are; paid, they stay as named."""
    scene = make_scene(sqlite_lake, str(tmp_path / "state"))
    owing = sqlite_lake.commit(scene.leave(0, 10, 3, dead_letters=[4])).progress
    assert _sweep(scene, str) == 0
    commit_pending(sqlite_lake.access(), sqlite_lake.name(), owing, {})
    assert _sweep(scene, str) == 0
    assert sqlite_lake.offsets("t_dead_letters") == [4]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_sweep_knows_a_place_under_any_scheme(
    lake_with_history: Lake, tmp_path: Path, spelling: Callable[[str], str]
) -> None:
    """A landed file stays and a stray goes once, whichever scheme the log names the table's place by."""
    _expect_stray_alone_swept(lake_with_history, str(tmp_path / "state"), spelling)


def test_a_sweep_knows_a_place_with_dots(sqlite_lake: Lake, tmp_path: Path) -> None:
    """The same for a folder that is reached through dots, as a relative warehouse once was."""
    _expect_stray_alone_swept(sqlite_lake, str(tmp_path / "state"), _with_dots)


def test_a_file_named_by_another_scheme_is_not_swept(lake_with_history: Lake, tmp_path: Path) -> None:
    """A table whose metadata names its files by another scheme than storage lists them by keeps them."""
    scene = make_scene(lake_with_history, str(tmp_path / "state"))
    request = scene.leave(0, 10, 3, dead_letters=[4])
    scene.lake.commit(named_as(request, _as_hadoop))
    before = scene.files()
    assert _sweep(scene, str) == 0
    assert scene.files() == before
    assert scene.lake.offsets() == [*range(4), *range(5, 10)]


def named_as(request: DrainCommit, spelling: Callable[[str], str]) -> DrainCommit:
    """The same files under other names for their places."""

    def respelled(files: tuple[WrittenFile, ...]) -> tuple[WrittenFile, ...]:
        return tuple(replace(file, path=spelling(file.path)) for file in files)

    written = request.written
    data_files, dead_letter_files = respelled(written.data_files), respelled(written.dead_letter_files)
    return replace(
        request, written=replace(written, data_files=data_files, dead_letter_files=dead_letter_files)
    )


def test_who_may_not_delete_sweeps_nothing_and_goes_on(
    sqlite_lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A role without the right to delete drains all the same: what a crash left is an orphan, and is told."""
    scene = make_scene(sqlite_lake, str(tmp_path / "state"))
    scene.leave(0, 10, 2)
    sqlite_lake.drain(0, 10)
    before = scene.files()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    (attempt,) = scene.unfinished()
    assert scene.recover().swept == (attempt.uuid,)
    assert scene.files() == before
    assert scene.unfinished() == ()
    assert "Allow Sluice to list" in caplog.text
