"""The job's own code as one zip, for Spark servers that do not have Sluice installed.

The zip is the same byte for byte for the same sources, and its name carries their hash: a session that
already holds it accepts it again, and a newer version never collides with an older one.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

from spark_jobs.storage.state_files import write_whole

PACKAGE = "spark_jobs"
SUFFIXES = {".py", ".txt"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_zip(folder: Path) -> Path:
    """Write ``spark_jobs`` as ``spark_jobs-<hash>.zip`` into ``folder`` and return its path."""
    root = Path(__file__).resolve().parents[2]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(each for each in (root / PACKAGE).rglob("*") if each.suffix in SUFFIXES):
            name = source.relative_to(root).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), source.read_bytes())
    content = buffer.getvalue()
    path = folder / f"{PACKAGE}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    # Another process may be uploading it. One that was cut short, as earlier versions could leave, is mended.
    if not (path.exists() and path.read_bytes() == content):
        write_whole(path, content)
    return path
