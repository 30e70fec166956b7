"""Puts up again what an earlier version left behind: its broker's data, its bucket, its catalogs."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from prove.lab.kafka_server import KafkaBroker, kafka_settings
from prove.lab.pipeline_lab import Lab, configure, make_lab
from prove.lab.s3 import REGION, S3
from servers.kafka import start_kafka
from servers.process import ServerFolder

if TYPE_CHECKING:
    from servers.kafka import KafkaServer

_ARCHIVES = Path(__file__).parent.parent / "golden"
FORMAT_1 = _ARCHIVES / "format-1.tar.xz"
FORMAT_1_BY_SCHEMA = _ARCHIVES / "format-1-by-schema.tar.xz"
FORMAT_4_MIRROR = _ARCHIVES / "format-4-mirror.tar.xz"
FORMATS_2_3_5 = _ARCHIVES / "formats-2-3-5.tar.xz"
BUCKET = "golden"


@dataclass(frozen=True, slots=True)
class Golden:
    """The unpacked state, with a broker and a bucket that hold their part of it."""

    folder: Path
    kafka: KafkaServer
    s3: S3

    def lab(self, name: str, **settings: Any) -> Lab:
        """Return the pipeline of this name as it was left; ``settings`` are its own."""
        folder = self.folder / "labs" / name
        lab = make_lab(folder, bootstrap=self.broker, topic=name, spark_remote=None, **settings)
        shutil.move(folder / "catalog.db", folder / "home" / "catalog.db")
        warehouse = {"warehouse": f"s3://{BUCKET}/{name}/lake"}
        configure(lab, "catalog", {**warehouse, **self.s3.pyiceberg_properties})
        configure(lab, "", {"state": f"s3://{BUCKET}/{name}/log"})
        return lab

    @property
    def broker(self) -> KafkaBroker:
        """Return the broker that has the topics."""
        return KafkaBroker(self.kafka.bootstrap_servers)


def put_up(archive: Path, root: Path, s3_endpoint: str) -> Golden:
    """Unpack the archive below ``root``, start a broker on its data and fill its bucket."""
    name = f"golden-{archive.name.partition('.')[0]}"
    folder = root / name
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    s3 = S3(s3_endpoint, "sluice", "test-secret-key", BUCKET)
    _fill(s3, folder / "s3")
    place = ServerFolder(root, f"{name}-kafka")
    shutil.copytree(folder / "kafka", place.home / "data")
    return Golden(folder, start_kafka(kafka_settings(place)), s3)


def _fill(s3: S3, folder: Path) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
        region_name=REGION,
    )
    client.create_bucket(Bucket=BUCKET)
    for path in filter(Path.is_file, folder.rglob("*")):
        client.put_object(Bucket=BUCKET, Key=str(path.relative_to(folder)), Body=path.read_bytes())
