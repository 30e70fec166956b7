"""The files of ``.github``: judged by their published schemas and by zizmor, without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from check_jsonschema.builtin_schemas import get_builtin_schema
from jsonschema.validators import validator_for
from ruamel.yaml import YAML

from bootstrap.places import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
TOOLS = Path(sys.executable).parent
# Each is a command that the suite runs too; where a test does it, with an option that keeps it here.
COMMANDS = {
    "./sluice lint": "bootstrap/launch.py",
    ".ci/run": ".ci/run",
    "packaging/release dist --publish": "tests/packaging/test_release.py",
    "./sluice docs --build dist/site": "tests/unit/test_site.py",
    "packaging/audit": "tests/unit/test_workflows.py",
}


def read(path: Path) -> Any:
    """A file in YAML 1.2, where ``on`` is a text."""
    return YAML(typ="safe").load(path)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", [path for path in FORMS if path.name != "config.yml"]),
        ("github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ],
)
def test_files_have_the_form_that_their_host_reads(schema: str, files: list[Path]) -> None:
    """The schemas come with check-jsonschema."""
    judged = get_builtin_schema(f"vendor.{schema}")
    for path in files:
        assert not list(validator_for(judged)(judged).iter_errors(read(path)))


def test_workflows_have_none_of_the_known_weaknesses() -> None:
    """Every action is pinned by its commit, no step has a right or a credential that it does not use."""
    command = [TOOLS / "zizmor", "--offline", "--quiet", "--pedantic", GITHUB]
    judged = subprocess.run(command, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    actions = re.findall(r"uses: (\S+)", "".join(path.read_text() for path in WORKFLOWS))
    assert actions
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in actions)


def test_each_step_is_a_command_that_the_suite_runs() -> None:
    """What a host of workflows does is what ``./sluice test`` does here, and its Python is the oldest."""
    jobs = [job for path in WORKFLOWS for job in read(path)["jobs"].values()]
    steps = [step for job in jobs for step in job["steps"]]
    assert {step["run"] for step in steps if "run" in step} == set(COMMANDS)
    assert all((ROOT / place).exists() for place in COMMANDS.values())
    for step in steps:
        command, _, options = step.get("run", "./sluice").partition(" ")
        assert (ROOT / command).stat().st_mode & 0o111, options
    pythons = {step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", "")}
    assert pythons == {"3.11"}
    assert {path.stem for path in WORKFLOWS} == {"lint", "test", "audit", "docs", "release"}


def test_the_locked_packages_can_be_audited() -> None:
    """All of them are read from the lock; the question itself needs the index."""
    done = subprocess.run(
        [ROOT / "packaging" / "audit", "--dry-run"], capture_output=True, text=True, check=True
    )
    lock = (ROOT / "bootstrap" / "requirements-dev.txt").read_text(encoding="utf-8")
    (audited,) = re.findall(r"would have audited (\d+) packages", done.stderr)
    assert 0 <= len(re.findall(r"^\S+==", lock, re.MULTILINE)) - int(audited) < 10  # other systems' packages
