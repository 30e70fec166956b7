"""Makes pipelines over topics that hold given records, and looks at what a drain left behind."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import TABLE, Lab, configure, make_lab
from spark_jobs.lake.tables import dead_letters_of, summary_of
from spark_jobs.protocol.progress import PREFIX

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.s3 import S3

DEAD_LETTERS = dead_letters_of(TABLE)


@dataclass(frozen=True, slots=True)
class NewLab:
    """Everything pipelines of one test share; ``is_here``: their tasks run in the process that drains."""

    kafka: KafkaBroker
    spark_remote: str
    folder: Path
    is_here: bool = False

    def __call__(
        self, records: Iterable[Record | bytes | None] = (), *, partitions: int = 1, **settings: Any
    ) -> Lab:
        """Return a pipeline over a new topic with these records; ``settings`` are the pipeline's."""
        # Some tests set times of long ago, which retention would remove.
        topic = self.kafka.new_topic(partitions, retention_ms=-1)
        self.kafka.produce(topic, records)
        folder = self.folder / topic
        folder.mkdir()
        lab = make_lab(folder, bootstrap=self.kafka, topic=topic, spark_remote=self.spark_remote, **settings)
        return replace(lab, is_here=self.is_here)

    def produce(self, lab: Lab, records: Iterable[Record | bytes | None]) -> None:
        """Put more records into a pipeline's topic."""
        self.kafka.produce(lab.pipeline.topic, records)


def as_json(*values: object, partition: int = 0) -> list[Record]:
    """Records of one partition with these values as JSON."""
    return [Record(json.dumps(value).encode(), partition=partition) for value in values]


def serve_from(lab: Lab, catalog_properties: dict[str, str], s3: S3) -> None:
    """Put the lab into a catalog that all tests share, its table under a new name, its log into a bucket.

    The log is opened by what opens the lake where that is on S3 too, else by keys of its own.
    """
    configure(lab, "catalog", {"warehouse": None, **catalog_properties})
    uri, own = f"s3://{s3.bucket}/log", s3.pyiceberg_properties
    configure(lab, "", {"state": uri if "s3.endpoint" in catalog_properties else {"uri": uri, **own}})
    namespace = unique_name("ns").replace("-", "_")
    configure(lab, f"pipelines/{lab.pipeline.name}", {"table": f"{namespace}.orders"})


def column_types(lab: Lab, identifier: str = "") -> dict[str, str]:
    """Return the columns that come from the JSON, with their types but without field ids."""
    schema = lab.table(identifier).schema().as_arrow()
    return {field.name: str(field.type) for field in schema if not field.name.startswith("_")}


def summary(snapshot: Snapshot | None) -> dict[str, str]:
    """Sluice's part of a snapshot's summary."""
    assert snapshot is not None
    return {word: value for word, value in summary_of(snapshot).words.items() if word.startswith(PREFIX)}
