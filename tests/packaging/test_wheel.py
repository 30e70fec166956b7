"""A wheel of Sluice: what it needs comes with it, and so does its command; it takes nobody's names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.install import make_movable
from bootstrap.places import EXTRAS, Places
from servers.cache import user_cache
from spark_jobs import __version__

FOLDERS = ("assets", "cli", "gateway", "orchestration", "resources", "servers", "serving", "spark_jobs")
# What a user's program does with its own packages and Sluice's, and what a worker gets of the job's code.
PROGRAM = """
import pickle, sys
from pathlib import Path
import assets, cli, gateway, orchestration, resources, servers, serving, spark_jobs
from sluice_lake.orchestration.definitions import defs
from sluice_lake.spark_jobs.drain.split_task import run_split
from sluice_lake.spark_jobs.spark.shipped import package_zip
ours = {name for name in sys.modules if name.partition(".")[0] in %r}
topics = [key.path[-1] for key in defs.resolve_all_asset_keys() if key.path[0] == "lake"]
print(topics, {sys.modules[name].OWNER for name in ours})
print(package_zip(Path().resolve()))
Path("task").write_bytes(pickle.dumps(run_split))
"""
NEEDS = """
from importlib.metadata import metadata, requires, version
from packaging.requirements import Requirement
for each in map(Requirement, requires("sluice-lake")):
    assert version(each.name) in each.specifier, each
print(*sorted(metadata("sluice-lake").get_all("Provides-Extra")))
"""
CONFIG = """version: 1
kafka: {bootstrap.servers: "broker:9092"}
pipelines: {flights: {topic: flights, table: lake.flights}}
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of the locked packages and the wheel, moved since it was made."""
    folder = tmp_path_factory.mktemp("wheel")
    make_movable(Places(user_cache()), folder / "environment")
    return (folder / "environment").rename(folder / "moved")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project that has packages of all names that Sluice's have in a clone."""
    folder = tmp_path_factory.mktemp("project")
    for name in FOLDERS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text('OWNER = "the user"\n')
    (folder / "program.py").write_text(PROGRAM % (FOLDERS,))
    (folder / "sluice.yaml").write_text(CONFIG)
    return folder


def _python(folder: Path, arguments: list[str], path: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path, "SLUICE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _run(environment: Path, folder: Path, *command: str) -> str:
    """Run what the environment has in the folder of a user, where nothing says where Sluice is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLUICE"))}
    done = subprocess.run(
        [environment / "bin" / command[0], *command[1:]],
        cwd=folder,
        env=kept | {"SLUICE_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_brings_its_command_and_names_what_it_needs(environment: Path, tmp_path: Path) -> None:
    """Nothing that it or an extra asks for is missing from the lock, and it runs where there is no clone."""
    extras = _run(environment, tmp_path, "python", "-c", NEEDS).split()
    assert extras == sorted(["demo", "gateway", "protobuf", "quality", "serve", *EXTRAS])
    (uv,) = (user_cache() / "tools").glob("uv-*/bin/uv")
    subprocess.run([uv, "pip", "check", "--python", environment / "bin" / "python"], check=True)
    assert _run(environment, tmp_path, "sluice", "--version").strip() == f"sluice {__version__}"


def test_a_wheel_leaves_a_user_the_names_of_their_packages(environment: Path, project: Path) -> None:
    """Both are imported in one process; no file asks for a name outside; the zip shipped has the tasks."""
    (installed,) = environment.glob("lib/python*/site-packages")
    record = (installed / f"sluice_lake-{__version__}.dist-info" / "RECORD").read_text()
    tops = {line.partition("/")[0] for line in record.splitlines()}
    assert tops == {"sluice_lake", f"sluice_lake-{__version__}.dist-info", ".."}  # .. is the command
    texts = "".join(file.read_text(encoding="utf-8") for file in (installed / "sluice_lake").rglob("*.py"))
    assert not set(re.findall(r"^ *(?:from|import) (\w+)", texts, re.MULTILINE)) & set(FOLDERS)
    # By the clone's own interpreter, which has compiled its packages before: a minute of CPU is saved.
    (project / "installed").mkdir()
    (project / "installed" / "sluice_lake").symlink_to(installed / "sluice_lake")
    owners, zipped = _python(
        project, ["program.py"], f"{project}{os.pathsep}{project / 'installed'}"
    ).splitlines()
    assert owners == "['flights'] {'the user'}"
    load = "import pickle; print(pickle.load(open('task', 'rb')).__code__.co_filename)"
    found = _python(project, ["-c", load], zipped)
    assert found.strip() == f"{zipped}/sluice_lake/spark_jobs/drain/split_task.py"


def test_commands_of_a_wheel_run_in_a_project_with_packages_of_the_same_names(
    environment: Path, project: Path
) -> None:
    """What stands in the folder where somebody types is not taken for ours."""
    assert "Usage: ./sluice" in _run(environment, project, "sluice", "--help")
    assert "flights" in _run(environment, project, "sluice", "validate")
