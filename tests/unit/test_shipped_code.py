"""The zip of the job's code is whole at every moment."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING

from spark_jobs.spark.shipped import package_zip

if TYPE_CHECKING:
    from pathlib import Path


def test_a_worker_tells_errors_from_the_zip(tmp_path: Path) -> None:
    """What errors say is beside the code that tells them, wherever it is imported from."""
    told = f"""
import sys; sys.path.insert(0, {str(package_zip(tmp_path))!r})
from spark_jobs.protocol.errors import fault; print(fault("table-gone", table="a.b"), fault.__code__)
"""
    said = subprocess.run([sys.executable, "-Ic", told], capture_output=True, text=True, check=True).stdout
    assert said.startswith("the table no longer exists (table a.b) [table-gone] Restore it")
    assert str(tmp_path) in said


def test_a_worker_decodes_json_by_the_module_in_the_zip(tmp_path: Path) -> None:
    """WebAssembly starts from where the code is imported, not from a folder."""
    asked = f"""
import sys; sys.path.insert(0, {str(package_zip(tmp_path))!r})
from spark_jobs.formats.json.native import __file__, why_off; print(why_off(), __file__)
"""
    said = subprocess.run([sys.executable, "-Ic", asked], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"None {tmp_path}")


def test_a_zip_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """Another process may be uploading it; no part of one is left beside it."""
    zipped = package_zip(tmp_path)
    before = zipped.stat()
    assert package_zip(tmp_path) == zipped
    assert (zipped.stat().st_ino, zipped.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(tmp_path.iterdir()) == [zipped]


def test_a_zip_that_was_cut_short_is_mended_and_no_reader_ever_sees_part_of_one(tmp_path: Path) -> None:
    """A session would keep a broken one under its name; a writer that died may have left it."""
    zipped = package_zip(tmp_path)
    whole = zipped.read_bytes()
    cut, stop, seen = whole[:100], threading.Event(), set()

    def read() -> None:
        while not stop.is_set():
            seen.add(zipped.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(5):
            draft = tmp_path / "draft"
            draft.write_bytes(cut)
            draft.replace(zipped)
            assert package_zip(tmp_path).read_bytes() == whole
    finally:
        stop.set()
        reader.join()
    assert seen <= {whole, cut}
    assert zipfile.ZipFile(zipped).testzip() is None
