"""Makes an archive of what versions write: ``python -m tests.golden.make NAME FORMAT:COMMIT ...``.

Each commit drains pipelines of that format of progress by its own code, in a work tree of its own, into one
broker, one bucket and a catalog each, and leaves them in the middle of something. How their rows must end
stands beside the catalog, in ``expected.json``.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fastavro

from prove.lab.kafka_server import KafkaBroker, Record
from prove.lab.pipeline_lab import TABLE, Lab, configure, make_lab, progress

HERE = Path(__file__).resolve().parent
BUCKET = "golden"
KILLED = "drain.after-parquet-written"
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "double"}],
}


class Making:
    """Where the pipelines of one version are made."""

    def __init__(self, bootstrap: str, s3: dict[str, str], folder: Path) -> None:
        self.broker = KafkaBroker(bootstrap)
        self.s3, self.folder = s3, folder

    def lab(self, name: str, records: Iterable[Record | bytes | None], **settings: Any) -> Lab:
        """Return a pipeline over a topic of its own name with these records."""
        self.broker.create_topic(name, 1, retention_ms=-1)
        self.broker.produce(name, records)
        folder = self.folder / name
        folder.mkdir()
        lab = make_lab(folder, bootstrap=self.broker, topic=name, spark_remote=None, **settings)
        configure(lab, "catalog", {"warehouse": f"s3://{BUCKET}/{name}/lake", **self.s3})
        configure(lab, "", {"state": f"s3://{BUCKET}/{name}/log"})
        return lab

    def more(self, lab: Lab, records: Iterable[Record | bytes | None]) -> None:
        """Put more into a pipeline's topic."""
        self.broker.produce(lab.pipeline.topic, records)

    def left(self, lab: Lab, version: int, expected: object) -> None:
        """Look at what was left and write down how it must end."""
        assert progress(lab).format_version == version
        (lab.path.parent / "expected.json").write_text(json.dumps(expected))


def as_json(*values: object) -> list[Record]:
    """Records of these values, at times of long ago."""
    return [
        Record(json.dumps(value).encode(), timestamp_ms=1_790_000_000_000 + n)
        for n, value in enumerate(values)
    ]


def in_avro(first: int, count: int) -> list[Record]:
    """Orders by ``SCHEMA``, alone."""
    records = []
    for number in range(first, first + count):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), {"id": number, "price": number + 0.5})
        records.append(Record(out.getvalue(), key=f"k{number}".encode()))
    return records


def format_2(made: Making) -> None:
    """Column maps, and a layout that is not flat."""
    from spark_jobs.protocol.offsets import OffsetRange

    value = {"format": "avro", "file": "order.avsc", "framing": "none"}
    lab = made.lab("by-fields", [*in_avro(0, 20), Record(b"no Avro"), Record(None)], value=value)
    (lab.path.parent / "order.avsc").write_text(json.dumps(SCHEMA))
    lab.drain()
    lab.replay(OffsetRange(0, 3, 9))
    made.more(lab, in_avro(20, 10))
    lab.kill_at(KILLED)
    made.left(lab, 2, {TABLE: list(range(30))})
    records = [*as_json({"id": 0}, {"id": 1}), Record(None, key=b"gone"), Record(b"\xff")]
    lab = made.lab("archived", records, layout="archive")
    lab.drain()
    made.more(lab, as_json({"id": 2}))
    lab.kill_at(KILLED)
    made.left(lab, 2, {TABLE: [0, 1, 2, 3, 4]})


def format_3(made: Making) -> None:
    """Letters that went through again, and routes: what is owed to three tables is not paid."""
    lab = made.lab("redriven", as_json({"id": 0}, {"id": 1}), schema={"new_fields": "dead_letter"})
    lab.drain()
    made.more(lab, as_json({"id": 2, "late": True}, {"id": 3}))
    lab.drain()
    configure(lab, "pipelines/orders", {"schema": {"new_fields": "add"}})
    lab.redrive()
    made.more(lab, as_json({"id": 4}))
    lab.kill_at(KILLED)
    made.left(lab, 3, {TABLE: [0, 1, 2, 3, 4]})
    route = {"by": "kind", "tables": {"refund": "sales.refunds", "void": "sales.voids"}}
    sold = [{"kind": kind, "id": n} for n, kind in enumerate(("sale", "refund", "void"))]
    lab = made.lab("routed", as_json(*sold, {"kind": "refund", "id": "x"}), route=route)
    lab.drain()
    again = [{"kind": kind, "id": n} for n, kind in enumerate(("refund", "void", "sale"), 4)]
    made.more(lab, as_json(*again, {"kind": "void", "id": "y"}))
    lab.kill_at("drain.after-commit")
    made.left(lab, 3, {TABLE: [0, 6], "sales.refunds": [1, 4], "sales.voids": [2, 5]})


def format_5(made: Making) -> None:
    """A mirror that knows whose changes it takes."""
    from prove.lab.generated_changes import RandomSource

    source = RandomSource(4)
    lab = made.lab("mirrored-from", [told.record(1) for told in source.changes(12)], layout="mirror")
    lab.drain()
    made.more(lab, [told.record(1) for told in source.changes(4)])
    lab.kill_at(KILLED)
    made.left(lab, 5, source.rows)


FORMATS: dict[str, Callable[[Making], None]] = {"2": format_2, "3": format_3, "5": format_5}


def make(archive: Path, versions: dict[str, str], root: Path) -> None:
    """Have each version make its pipelines and pack all of it."""
    from prove.lab.kafka_server import start_test_kafka
    from prove.lab.s3 import start_s3
    from servers.process import ServerFolder

    kafka, s3 = start_test_kafka(ServerFolder(root, "kafka")), start_s3(ServerFolder(root, "s3"))
    store = _store(s3.endpoint)
    store.create_bucket(Bucket=BUCKET)
    labs, packed = root / "made", root / "packed"
    labs.mkdir()
    for version, commit in versions.items():
        _run_in_its_tree(root, version, commit, [kafka.bootstrap_servers, s3.endpoint, str(labs)])
    for found in store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in found["Contents"]:
            file = packed / "s3" / each["Key"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(store.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read())
    for lab in labs.iterdir():
        (packed / "labs" / lab.name).mkdir(parents=True)
        for file in (lab / "home" / "catalog.db", *lab.glob("*.json"), *lab.glob("*.avsc")):
            shutil.copy(file, packed / "labs" / lab.name)
    kafka.process.stop()
    s3.process.stop()
    shutil.copytree(root / "kafka" / "data", packed / "kafka")
    with tarfile.open(archive, "w:xz", preset=9) as out:
        for part in sorted(packed.iterdir()):
            out.add(part, part.name, filter=_nobodys)


def _run_in_its_tree(root: Path, version: str, commit: str, where: list[str]) -> None:
    tree = root / f"format-{version}"
    subprocess.run(["git", "worktree", "add", "--detach", tree, commit], check=True)
    try:
        command = [sys.executable, str(HERE / "make.py"), "--in-its-tree", version, *where]
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        subprocess.run(command, cwd=tree, env=environment, check=True)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _store(endpoint: str) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=endpoint, **_ACCESS)


_ACCESS = {
    "aws_access_key_id": "sluice",
    "aws_secret_access_key": "test-secret-key",
    "region_name": "us-east-1",
}


def _make_here(version: str, bootstrap: str, endpoint: str, folder: str) -> None:
    s3 = {
        "s3.endpoint": endpoint,
        "s3.access-key-id": _ACCESS["aws_access_key_id"],
        "s3.secret-access-key": _ACCESS["aws_secret_access_key"],
        "s3.region": _ACCESS["region_name"],
        "s3.path-style-access": "true",
    }
    FORMATS[version](Making(bootstrap, s3, Path(folder)))


if __name__ == "__main__":
    if sys.argv[1] == "--in-its-tree":
        _make_here(*sys.argv[2:])
    else:
        with TemporaryDirectory() as place:
            given = dict(each.split(":") for each in sys.argv[2:])
            make(HERE / f"{sys.argv[1]}.tar.xz", given, Path(place))
