"""The image itself, built, unpacked and run: some minutes as root, so by hand or before a release.

``./sluice test tests/packaging/try_image.py``; ``SLUICE_IMAGE`` names an archive that is built already, and
``SLUICE_IMAGE_OPTIONS`` are more of buildah's, such as another base.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from bootstrap.places import ROOT
from cli.stand.sample_data import FLIGHTS, Delivery, create_sample_topics, read_sample
from prove.lab.kafka_server import KafkaBroker
from spark_jobs import __version__

pytestmark = pytest.mark.kafka

CONFIG = """\
version: 1
kafka: {{bootstrap.servers: "{broker}"}}
catalog: {{type: sql, uri: "sqlite:////mnt/catalog.db", warehouse: "file:///mnt/lake"}}
state: /mnt/log
spark: {{master: "local[2]"}}
pipelines:
  flights: {{topic: flights, table: lake.flights}}
"""
# Nothing but /tmp and the lake's /mnt can be written; hosts are given to containers.
CONTAINER = """\
mount --bind {root} {root}
mount -o remount,bind,ro {root}
mount -t tmpfs tmpfs {root}/tmp
mount --bind {lake} {root}/mnt
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount --bind /etc/hosts {root}/etc/hosts
exec chroot --userspec={user} {root} /usr/bin/env -i {variables} {command}
"""


def write_image(target: Path) -> str:
    """Build it; its digest."""
    options = shlex.split(os.environ.get("SLUICE_IMAGE_OPTIONS", ""))
    command = [ROOT / "packaging" / "image", target, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[-1]


def unpack(archive: Path, root: Path) -> dict[str, object]:
    """Lay out the image's layers, one over the other; its configuration."""
    with tarfile.open(archive) as blobs:

        def blob(described: dict[str, str]) -> object:
            return blobs.extractfile(f"blobs/{described['digest'].replace(':', '/')}")

        (described,) = json.load(blobs.extractfile("index.json"))["manifests"]  # type: ignore[arg-type]
        manifest = json.load(blob(described))  # type: ignore[arg-type]
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer)) as files:  # type: ignore[call-overload]
                files.extractall(root, filter="fully_trusted")  # noqa: S202  (ours)
        config: dict[str, object] = json.load(blob(manifest["config"]))["config"]  # type: ignore[arg-type]
        return config


def test_an_image_drains_as_nobody_special_where_nothing_can_be_written(
    tmp_path: Path, kafka: KafkaBroker
) -> None:
    """The demo's topic, from a broker on loopback, audited; the state folder is as it was: empty."""
    archive = Path(os.environ.get("SLUICE_IMAGE") or tmp_path / "image.tar")
    if not archive.exists():
        write_image(archive)
    root, lake = tmp_path / "root", tmp_path / "lake"
    lake.mkdir()
    config = unpack(archive, root)
    assert config["Labels"]["org.opencontainers.image.version"] == __version__  # type: ignore[index]
    (root / "etc" / "hosts").touch()
    user = str(config["User"])
    shutil.chown(lake, *map(int, user.split(":")))
    properties = {"bootstrap.servers": str(kafka)}
    create_sample_topics(properties, {FLIGHTS.topic: FLIGHTS.partitions})
    delivery = Delivery(properties)
    for record in read_sample(FLIGHTS):
        delivery.send(FLIGHTS.topic, record)
    delivery.flush()
    given = [*config["Env"], f"SLUICE_CONFIG_YAML={CONFIG.format(broker=kafka)}"]  # type: ignore[misc]

    def run(*command: str) -> str:
        script = CONTAINER.format(
            root=root, lake=lake, user=user, variables=shlex.join(given), command=shlex.join(command)
        )
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("sh", "-c", "id -u; touch /opt/sluice/x 2>&1 || true") == (
        "10001\ntouch: cannot touch '/opt/sluice/x': Read-only file system\n"
    )
    run("sluice", "drain", "flights")
    found = json.loads(run("sluice", "audit", "flights", "--json").splitlines()[-1])
    assert (found["records"], found["missing"], found["duplicates"]) == (FLIGHTS.records, 0, 0)
    assert "1.13" in run("dagster", "--version")
    run("sh", "-c", "cd /tmp && dagster definitions validate -m sluice_lake.orchestration.definitions")
    assert not list((root / "opt" / "sluice" / "home").iterdir())


def test_the_same_clone_gives_the_same_image(tmp_path: Path) -> None:
    """Byte for byte, though its folders and its environment were made twice."""
    assert write_image(tmp_path / "first.tar") == write_image(tmp_path / "second.tar")
