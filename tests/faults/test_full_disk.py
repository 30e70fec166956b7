"""A disk without room left is a named error, and the next run after some was made goes on."""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import configure
from spark_jobs.protocol.errors import RetryableError
from tests.support.new_lab import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing(new_lab: NewLab, small_disk: Path) -> None:
    """The lake's disk fills up in the middle of a batch; with more room the same records are drained once."""
    noise = random.Random(1)
    lab = new_lab(as_json({"id": 0, "text": "x"}))
    configure(lab, "catalog", {"warehouse": small_disk.as_uri()})
    lab.drain()
    new_lab.produce(lab, as_json(*({"id": n, "text": noise.randbytes(2000).hex()} for n in range(1, 800))))
    with pytest.raises(RetryableError) as raised:
        lab.drain()
    assert raised.value.code == "storage-failed"
    assert "No space left" in raised.value.message
    assert "\n" not in str(raised.value)
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    assert lab.drain().balance.rows == 799
    found = lab.audit()
    assert (found.is_clean, found.rows, found.lag) == (True, 800, 0), found
    assert lab.stray_files() == set()
