"""A release's files, made from a copy of the clone; nothing is published."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from bootstrap.places import ROOT

VERSION = "7.8.9"
NOTES = "- Drain tables faster\n"
# What it is called with goes to a file; buildah's commands write what the real ones would.
BUILDAH = """#!/bin/sh
echo "buildah $*" >>"$CALLS"
case "$1" in
  build) while [ "$1" != --iidfile ]; do shift; done; echo sha256:1234 >"$2" ;;
  from) echo container ;;
  run) echo '{}' ;;
  push) for last; do :; done; echo image >"${last#oci-archive:}" ;;
esac
"""
GH = '#!/bin/sh\necho "gh $*" >>"$CALLS"\n'


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed copy of this clone's files that is one version further, with the same environment."""
    clone = tmp_path_factory.mktemp("release") / "clone"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if not name.startswith(("tests/", "bench/", "prove/")) and (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    (clone / ".venv").symlink_to(os.environ.get("VIRTUAL_ENV") or (ROOT / ".venv").resolve())
    (clone / "spark_jobs" / "__init__.py").write_text(f'__version__ = "{VERSION}"\nWITHIN = ""\n')
    (clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n## {VERSION} - today\n\n{NOTES}")
    git(clone, "init", "--quiet")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "Release")
    return clone


def git(clone: Path, *arguments: str) -> None:
    """Run git as somebody."""
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.com"]
    subprocess.run(["git", "-C", clone, *who, *arguments], check=True)


def release(clone: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Make a release's files with a ``buildah`` and a ``gh`` that note how they were called."""
    tools = clone.parent / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (("buildah", BUILDAH), ("gh", GH)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(clone.parent / "calls"),
    }
    command = [clone / "packaging" / "release", folder, *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_release_has_a_bill_of_materials_for_each_file_and_checksums_of_all(
    clone: Path, tmp_path: Path
) -> None:
    """Every file has the version that one line of the sources has, and the tag's release gets all of them."""
    git(clone, "tag", f"v{VERSION}")
    folder = tmp_path / "files"
    made = release(clone, folder, "--publish")
    assert made.returncode == 0, made.stderr
    wheel, sdist = f"sluice_lake-{VERSION}-py3-none-any.whl", f"sluice_lake-{VERSION}.tar.gz"
    image = f"sluice-{VERSION}-image"
    bills = [f"{wheel}.cdx.json", f"{sdist}.cdx.json"]
    reports = {"prove-report.html", "prove-report.json"}
    files = {wheel, sdist, *bills, f"{image}.tar", f"{image}.cdx.json", *reports, "notes.md", "SHA256SUMS"}
    assert {path.name for path in folder.iterdir()} == files
    assert (folder / "notes.md").read_text() == NOTES
    sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files - {"SHA256SUMS"}
    }
    for built, bill in zip((wheel, sdist), bills, strict=True):
        text = (folder / bill).read_text()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        subject = json.loads(text)["metadata"]["component"]
        assert (subject["version"], subject["hashes"][0]["content"]) == (VERSION, sums[built])
    with zipfile.ZipFile(folder / wheel) as archive:
        metadata = archive.read(f"sluice_lake-{VERSION}.dist-info/METADATA").decode()
    assert "Do Not Upload" not in metadata
    with tarfile.open(folder / sdist) as archive:
        assert f"sluice_lake-{VERSION}/bootstrap/requirements.txt" in archive.getnames()
    calls = (clone.parent / "calls").read_text()
    assert f"buildah build --build-arg VERSION={VERSION} " in calls
    (published,) = (line.split() for line in calls.splitlines() if line.startswith("gh "))
    assert published[:5] == ["gh", "release", "create", f"v{VERSION}", "--verify-tag"]
    assert {Path(each).name for each in published[5:]} >= files


def test_a_release_is_refused_unless_everything_is_committed_and_in_the_changelog(
    clone: Path, tmp_path: Path
) -> None:
    """Nothing is made of a file that is not committed, or of a version without a section of its own."""
    text = (clone / "CHANGELOG.md").read_text()
    for changed, reason in (
        (text + "- One more\n", "The tree has changes that are not committed:\n M CHANGELOG.md"),
        (text.replace("Unreleased\n", "Unreleased\n\n- Next\n"), "has unreleased changes"),
        (text.replace(VERSION, "7.8.8"), f"has no section {VERSION}"),
    ):
        (clone / "CHANGELOG.md").write_text(changed)
        refused = release(clone, tmp_path / "files", "--without-image")
        assert (refused.returncode, reason in refused.stderr) == (1, True), refused.stderr
    git(clone, "checkout", "--quiet", "CHANGELOG.md")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "Another commit than the tag's")
    refused = release(clone, tmp_path / "files", "--publish")
    assert f"The commit has no tag v{VERSION}" in refused.stderr
    assert not (tmp_path / "files").exists()


def test_each_line_of_the_changelog_is_one_change() -> None:
    """At most a hundred characters, under a version's heading."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    changes = [line for line in lines if line.startswith("- ")]
    assert changes
    assert not [line for line in changes if len(line) > 100]
    assert not [line for line in lines if line.startswith((" ", "*"))]


def test_no_page_installs_a_name_that_is_not_ours() -> None:
    """The project owns no name on a package index, so pages install from a clone or a release's file."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.name != "errors.md"]
    assert not [
        found for text in texts for found in re.findall(r"pip install [^\n`]*\bsluice(?![\w/.])", text)
    ]
