"""Archives for Spark servers without them: the job's code, and Python with its packages."""

from __future__ import annotations

import hashlib
import io
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

from spark_jobs import WITHIN
from spark_jobs.storage.state_files import write_whole

# The job's own code as one zip, for Spark servers that do not have Sluice installed.
#
# The zip is the same byte for byte for the same sources, and its name carries their hash: a session that
# already holds it accepts it again, and a newer version never collides with an older one.


JOBS = Path(__file__).resolve().parents[1]
SUFFIXES = {".py", ".toml", ".txt", ".wasm"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def package_zip(folder: Path) -> Path:
    """Write ``spark_jobs`` as ``spark_jobs-<hash>.zip`` into ``folder`` and return its path."""
    root = JOBS.parents[WITHIN.count(".")]
    around = [*JOBS.parent.glob("__init__.py")] if WITHIN else []
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for source in sorted(each for each in (*around, *JOBS.rglob("*")) if each.suffix in SUFFIXES):
            name = source.relative_to(root).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), source.read_bytes())
    content = buffer.getvalue()
    path = folder / f"{JOBS.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    # Another process may be uploading it. One that was cut short, as earlier versions could leave, is mended.
    if not (path.exists() and path.read_bytes() == content):
        write_whole(path, content)
    return path


# Python and the packages that tasks import as one archive, for Spark's workers that have neither.
#
# Spark unpacks it wherever it works, so a launcher tells Python where its files are by now. PySpark is not in
# it: workers have their Spark's own. The archive's name carries the versions of all that is in it.


LAUNCHER = "bin/python3"
# What tasks import; what these require comes with them.
_IMPORTED = (
    *("pyarrow", "pyiceberg[pyiceberg-core]", "confluent-kafka", "numpy", "pandas", "orjson", "fastavro"),
    *("protobuf", "grpcio-tools", "pydantic", "croniter", "requests", "pyyaml", "py4j", "cryptography"),
    *("duckdb", "jmespath", "wasmtime"),
    "aws-msk-iam-sasl-signer-python",  # an extra: passed over where it is not
)
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LAUNCH = f"""#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd) || exit 1
export PYTHONHOME="$here" PYTHONNOUSERSITE=1 PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/packages"
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/bin/{_PYTHON}" "$@"
"""
_LEFT_OUT = frozenset(
    {
        *("__pycache__", "site-packages", "dist-packages", "test", "tests", "include"),
        *("idlelib", "tkinter", "ensurepip", Path(sysconfig.get_config_var("LIBPL")).name),
    }
)


def archive_name() -> str:
    """Return the archive's name without extension, which is also the name of its unpacked folder."""
    versions = sorted(f"{name} {each.version}" for name, each in _packages().items())
    digest = hashlib.sha256("\n".join([sys.version, sysconfig.get_platform(), *versions]).encode())
    return f"python-{digest.hexdigest()[:16]}"


def pack_python(folder: Path) -> Path:
    """Return the archive in ``folder``, created if missing (some seconds)."""
    archive = folder / f"{archive_name()}.tar.gz"
    if not archive.exists():
        with TemporaryDirectory(dir=folder) as draft:
            made = Path(draft) / archive.name
            # Most of it is machine code, which better compression makes hardly smaller.
            with tarfile.open(made, "w:gz", compresslevel=1) as packed:
                _add_interpreter(packed)
                for source, name in _files():
                    packed.add(source, f"packages/{name}", recursive=False)
            made.replace(archive)
    return archive


def _add_interpreter(packed: tarfile.TarFile) -> None:
    packed.add(Path(sys.executable).resolve(), f"bin/{_PYTHON}")
    launcher = tarfile.TarInfo(LAUNCHER)
    launcher.mode, launcher.size = 0o755, len(_LAUNCH)
    packed.addfile(launcher, io.BytesIO(_LAUNCH.encode()))
    library = Path(sysconfig.get_config_var("LIBDIR") or "/", sysconfig.get_config_var("INSTSONAME") or "")
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        packed.add(library.resolve(), f"lib/{library.name}")
    packed.add(sysconfig.get_path("stdlib"), f"{sys.platlibdir}/{_PYTHON}", filter=_included)


def _included(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT & set(Path(member.name).parts) else member


def _files() -> Iterator[tuple[Path, str]]:
    """Yield the packages' files and their paths below the folder of all packages."""
    for package in _packages().values():
        for path in package.files or ():
            if ".." not in path.parts and not _LEFT_OUT & set(path.parts):
                yield Path(str(package.locate_file(path))), path.as_posix()


def _packages() -> dict[str, Distribution]:
    """Return the installed packages that tasks import, with their requirements."""
    found: dict[str, Distribution] = {}
    asked, waiting = set(), [Requirement(text) for text in _IMPORTED]
    while waiting:
        wanted = waiting.pop()
        if (name := wanted.name.lower().replace("_", "-")) + str(wanted.extras) in asked:
            continue
        asked.add(name + str(wanted.extras))
        try:
            found[name] = distribution(wanted.name)
        except PackageNotFoundError:  # for another system
            continue
        for each in map(Requirement, found[name].requires or ()):
            extras = [{"extra": extra} for extra in ("", *wanted.extras)]
            if each.marker is None or any(map(each.marker.evaluate, extras)):
                waiting.append(each)
    return found
