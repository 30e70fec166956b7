"""The same work on a standalone Spark cluster, whose workers do not have Sluice."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from prove.lab.pipeline_lab import TABLE, configure, make_lab, orders
from prove.lab.spark_cluster import spark_cluster
from resources.spark import PARALLELISM
from spark_jobs.schema.metadata_columns import INGESTED_AT, OFFSET
from spark_jobs.spark.shipped_code import package_zip
from tests.support.upkeep_lab import tidy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab
    from prove.lab.spark_cluster import SparkCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 20_500  # more than one task takes
TASKS = 6  # files enough for a compaction


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master, two workers and a Connect server."""
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def test_a_standalone_cluster_does_the_same(
    kafka: KafkaBroker, cluster: SparkCluster, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Both workers take part with the code that came along; rows are the same, and upkeep runs there."""
    asked = [cluster.python, "-c", "import spark_jobs"]
    assert subprocess.run(asked, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    topic = kafka.new_topic(1, retention_ms=-1)
    kafka.produce(topic, [*orders(0, RECORDS), b"not json"])
    alone = make_lab(tmp_path / "alone", bootstrap=kafka, topic=topic, spark_remote=None)
    alone.drain()
    lab = make_lab(tmp_path / "spread", bootstrap=kafka, topic=topic, spark_remote=cluster.remote)
    configure(lab, "spark", {"conf": {PARALLELISM: str(TASKS)}})
    (batch,) = lab.drain().batches
    assert not [warning for warning in recwarn if PARALLELISM in str(warning.message)]
    assert (batch.counts.balance.rows, batch.counts.balance.dead_letters) == (RECORDS, 1)
    assert all(list(folder.rglob("spark_jobs-*.zip")) for folder in cluster.worker_folders)
    assert _files(lab) == TASKS
    tidy(lab, "compaction")
    assert _files(lab) == 1
    assert _content(lab) == _content(alone)


def test_other_code_never_meets_workers_of_the_old(
    cluster: SparkCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade tasks run the new code, although workers that imported the old one are still there."""

    def words(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs import words  # type: ignore[attr-defined]

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"word": [words.WORD] * batch.num_rows})

    lab = make_lab(tmp_path, bootstrap="127.0.0.1:1", topic="none", spark_remote=cluster.remote)
    for word in ("old", "new"):
        monkeypatch.setattr("resources.spark.package_zip", lambda folder, word=word: _with_word(folder, word))
        monkeypatch.setattr("resources.spark._sessions", {})
        with lab.connections() as connections:
            rows = connections.spark().range(0, 4, 1, 4).mapInArrow(words, "word string").collect()
        assert {row.word for row in rows} == {word}


def _with_word(folder: Path, word: str) -> Path:
    """The code that is shipped, and a module more."""
    package = package_zip(folder)
    changed = package.with_stem(f"{package.stem}-{word}")
    shutil.copyfile(package, changed)
    with zipfile.ZipFile(changed, "a") as archive:
        archive.writestr("spark_jobs/words.py", f"WORD = {word!r}\n")
    return changed


def _files(lab: Lab) -> int:
    return len(list(lab.table(TABLE).scan().plan_files()))


def _content(lab: Lab) -> pa.Table:
    """Every column but the time of ingestion, in the order of the topic."""
    return lab.rows().drop_columns([INGESTED_AT]).sort_by(OFFSET)
