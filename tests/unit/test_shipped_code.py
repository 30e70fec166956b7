"""The zip of the job's code is whole at every moment."""

from __future__ import annotations

from spark_jobs.spark.shipped_code import package_zip


def test_a_zip_that_is_there_is_not_written_again(tmp_path):
    """Another process may be uploading it; no part of one is left beside it."""
    zipped = package_zip(tmp_path)
    before = zipped.stat()
    assert package_zip(tmp_path) == zipped
    assert (zipped.stat().st_ino, zipped.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(tmp_path.iterdir()) == [zipped]
