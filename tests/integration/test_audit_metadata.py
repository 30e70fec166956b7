"""The metadata audit names each kind of damage by its coordinate, with the command that mends it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from spark_jobs.audit.metadata import audit_metadata, damage_since
from spark_jobs.books.history import history
from spark_jobs.storage.paths import normalise_path
from spark_jobs.txlog.entries import FlushComplete, IcebergSnapshotCreated, Swept
from tests.support.lake import Lake
from tests.support.recovery_scene import SOON_US, Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from spark_jobs.audit.findings import Finding, MetadataAudit


@pytest.fixture
def landed(scene: Scene) -> Scene:
    """Three batches, the second with a dead letter, complete in the log."""
    for start in (0, 10, 20):
        _land(scene, start, start + 10, dead_letters=[12] if start == 10 else [])
    return scene


def _land(scene: Scene, start: int, end: int, **more: object) -> None:
    request = scene.lake.request(start, end, **more)
    scene.log(request, 4)
    committed = scene.lake.commit(request)
    scene.connections.txlog.append(
        request.table_uuid, request.batch, IcebergSnapshotCreated(committed.snapshot_id, "r", SOON_US)
    )
    scene.connections.txlog.append(request.table_uuid, request.batch, FlushComplete({}, None, "r", SOON_US))


def _audit(scene: Scene) -> MetadataAudit:
    return audit_metadata(scene.pipeline, scene.connections)


def _data_file(table: Table, rows: int) -> Path:
    (path,) = (t.file.file_path for t in table.scan().plan_files() if t.file.record_count == rows)
    return Path(normalise_path(path))


def _only(result: MetadataAudit) -> Finding:
    (finding,) = result.findings
    assert not result.is_clean
    return finding


def test_a_whole_table_has_no_finding(landed: Scene) -> None:
    """Everything was looked at: three batches and a dead-letter file, every snapshot, every attempt."""
    result = _audit(landed)
    assert result.findings == []
    assert (result.data_files, result.attempts) == (4, 3)
    assert result.snapshots == len(landed.lake.load().metadata.snapshots) + len(
        landed.dead_letter_table().metadata.snapshots
    )
    assert result.data_bytes > 0


@pytest.mark.parametrize("is_emptied", [False, True])
def test_a_log_that_is_gone_is_no_log_without_attempts(landed: Scene, *, is_emptied: bool) -> None:
    """The table's own last drain shows that there was more; an emptied folder is none that was never used."""
    root = Path(landed.connections.txlog.root)
    shutil.rmtree(root)
    if is_emptied:
        root.mkdir()
    assert history(landed.pipeline, landed.connections, limit=9) == ()
    assert _only(_audit(landed)).what == "the table's last drain is in neither the log nor the batch history"


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (Path.unlink, "the file is gone"),
        (lambda path: path.write_bytes(path.read_bytes()[:-10]), "bytes, but the metadata has"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), "the file's footer cannot be read"),
    ],
)
def test_a_damaged_data_file_is_named_with_its_range(
    landed: Scene, damage: Callable[[Path], object], what: str
) -> None:
    """Replaying that range brings its rows again."""
    path = _data_file(landed.lake.load(), 9)
    damage(path)
    finding = _only(_audit(landed))
    assert what in finding.what
    assert finding.where.endswith(path.name)
    assert finding.mend == './sluice replay p --range 0:10-20 --reason "..."'


def test_a_page_that_does_not_bear_its_checksum_is_named(landed: Scene) -> None:
    """Footer, size and count are right: only all pages tell."""
    path = _data_file(landed.lake.load(), 9)
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(0)
    first = column.dictionary_page_offset or column.data_page_offset
    content[first + column.total_compressed_size - 1] ^= 1  # the last byte of a page's values
    path.write_bytes(content)
    assert _audit(landed).is_clean
    finding = _only(audit_metadata(landed.pipeline, landed.connections, pages=True))
    assert "a page of the file cannot be read" in finding.what
    assert finding.mend == './sluice replay p --range 0:10-20 --reason "..."'


def test_the_files_of_new_commits_are_looked_at_alone(landed: Scene) -> None:
    """Hourly, so an older file is not opened again; dead letters' files are among them."""
    since_ms = landed.lake.load().metadata.snapshots[-1].timestamp_ms + 1
    _data_file(landed.lake.load(), 9).unlink()
    time.sleep(0.002)
    _land(landed, 30, 35)
    assert damage_since(landed.pipeline, landed.connections, since_ms) == []
    _data_file(landed.lake.load(), 5).unlink()
    (finding,) = damage_since(landed.pipeline, landed.connections, since_ms)
    assert finding.what == "the file is gone"
    assert finding.mend == './sluice replay p --range 0:30-35 --reason "..."'
    assert len(damage_since(landed.pipeline, landed.connections, 0)) == 2


def test_another_tables_file_in_its_place_is_noticed(landed: Scene) -> None:
    """Its size may be right or wrong: the rows are counted too."""
    nine, other = _data_file(landed.lake.load(), 9), landed.lake.request(30, 33)
    content = Path(normalise_path(other.written.data_files[0].path)).read_bytes()
    nine.write_bytes(content)
    assert "bytes, but the metadata has" in _only(_audit(landed)).what


def test_a_dead_letter_file_counts_too(landed: Scene) -> None:
    """It is replayed like a row's file."""
    _data_file(landed.dead_letter_table(), 1).unlink()
    assert _only(_audit(landed)).mend == './sluice replay p --range 0:12-13 --reason "..."'


def test_a_manifest_that_is_gone_takes_a_rollback(landed: Scene) -> None:
    """To the snapshot before it; so does a manifest list."""
    table = landed.lake.load()
    current = table.metadata.current_snapshot()
    assert current is not None
    newest = next(m for m in current.manifests(table.io) if m.added_snapshot_id == current.snapshot_id)
    for path in (newest.manifest_path, current.manifest_list):
        Path(normalise_path(path)).unlink()
        finding = _only(_audit(landed))
        assert "is gone" in finding.what
        assert finding.where == path
        assert finding.mend == f'./sluice rollback p --to {current.parent_snapshot_id} --reason "..."'


def test_a_file_that_only_earlier_states_need_is_left_to_expiry(landed: Scene) -> None:
    """Nobody reads it from the table as it is now."""
    table = landed.lake.load()
    oldest = table.metadata.snapshots[1]
    Path(normalise_path(oldest.manifest_list)).unlink()
    finding = _only(_audit(landed))
    assert (finding.where, finding.mend) == (oldest.manifest_list, "./sluice upkeep p")


def test_what_the_log_says_of_another_table_is_named(landed: Scene) -> None:
    """It landed by the log, the table's offsets stop before it: a table restored from a backup."""
    request = landed.lake.request(40, 50)
    landed.log(request, 4)
    landed.connections.txlog.append(request.table_uuid, request.batch, FlushComplete({}, None, "r", SOON_US))
    finding = _only(_audit(landed))
    assert "the log records it as committed" in finding.what
    assert finding.where == request.batch.attempt


def test_a_swept_attempt_that_landed_is_named(landed: Scene) -> None:
    """Its range is what to replay: files of it may be gone."""
    request = landed.lake.request(30, 40)
    landed.log(request, 4)
    landed.connections.txlog.append(request.table_uuid, request.batch, Swept(1, "r", SOON_US), reached=4)
    landed.lake.commit(request)
    finding = _only(_audit(landed))
    assert finding.what == "the log records it as abandoned, but its commit is in the table"
    assert finding.mend == './sluice replay p --range 0:30-40 --reason "..."'


def test_batches_that_do_not_balance_and_offsets_with_holes_are_named(landed: Scene) -> None:
    """By what the snapshots' summaries say."""
    counted = {"sluice.balance": json.dumps({"0": [8, 1, 0, 0]}), "sluice.records": "10"}
    request = landed.lake.request(30, 40)
    landed.log(request, 4)
    written = replace(request.written, summary={**request.written.summary, **counted})
    landed.lake.commit(replace(request, written=written))
    unbalanced = _only(_audit(landed))
    assert "3 of its 10 offsets or rows are unaccounted for" in unbalanced.what
    assert unbalanced.mend == './sluice replay p --range 0:30-40 --reason "..."'


def test_a_table_that_changes_meanwhile_is_looked_at_anew(landed: Scene) -> None:
    """What upkeep deletes while the audit reads is no finding."""
    table = landed.lake.load()
    oldest = table.metadata.snapshots[0]
    path = Path(normalise_path(oldest.manifest_list))
    path.unlink()

    def expire(_counts: object) -> None:
        if landed.lake.load().metadata.snapshot_by_id(oldest.snapshot_id) is not None:
            landed.lake.load().maintenance.expire_snapshots().by_id(oldest.snapshot_id).commit()

    assert audit_metadata(landed.pipeline, landed.connections, on_progress=expire).findings == []


@pytest.mark.rest
def test_files_in_an_object_store_are_found_gone_too(
    rest_catalog_properties: dict[str, str], tmp_path: Path
) -> None:
    """Through the table's own file access."""
    scene = make_scene(Lake("rest", rest_catalog_properties, tmp_path.name), str(tmp_path / "state"))
    _land(scene, 0, 10)
    assert _audit(scene).findings == []
    table = scene.lake.load()
    (task,) = table.scan().plan_files()
    table.io.delete(task.file.file_path)
    finding = _only(_audit(scene))
    assert (finding.what, finding.where) == ("the file is gone", task.file.file_path)
