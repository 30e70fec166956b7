"""A release's files: wheel, sdist, image, a bill of materials for each, crash report, notes, checksums.

The version is the one in ``spark_jobs/__init__.py``; its notes are a section of CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bootstrap.install import SetupError, build_distributions, say
from bootstrap.places import ROOT, Places
from bootstrap.sbom import bill_of_materials
from servers.cache import user_cache
from spark_jobs import __version__

CHANGELOG = ROOT / "CHANGELOG.md"
NOTES = "notes.md"
CHECKSUMS = "SHA256SUMS"
_SECTION = re.compile(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class ReleaseError(Exception):
    """The release cannot be made; the message is for the maintainer."""


def main(arguments: Sequence[str]) -> int:
    """Make the files and publish them if asked; return the exit code."""
    parser = argparse.ArgumentParser(prog="packaging/release", description=__doc__)
    parser.add_argument("folder", type=Path, help="Folder to create.")
    parser.add_argument("--without-image", action="store_true", help="Leave out the container image.")
    parser.add_argument("--publish", action="store_true", help="Create the release of tag vVERSION with gh.")
    asked = parser.parse_args(arguments)
    try:
        notes = notes_of(__version__)
        _require_releasable(publish=asked.publish)
        make_files(asked.folder, notes, with_image=not asked.without_image)
    except (ReleaseError, SetupError) as error:
        say(str(error))
        return 1
    except FileExistsError:
        say(f"{asked.folder} exists: name a new folder.")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"{Path(error.cmd[0]).name} failed with exit code {error.returncode}.")
        return error.returncode
    return _publish(asked.folder) if asked.publish else 0


def notes_of(version: str) -> str:
    """Return the changelog's section of a version, without its heading."""
    sections = dict(_SECTION.findall(CHANGELOG.read_text(encoding="utf-8")))
    if sections.get("Unreleased", "").strip():
        raise ReleaseError(f"CHANGELOG.md has unreleased changes: move them under {version}.")
    if not sections.get(version, "").strip():
        raise ReleaseError(f"CHANGELOG.md has no section {version}, the version in spark_jobs/__init__.py.")
    return str(sections[version]).strip() + "\n"


def make_files(folder: Path, notes: str, *, with_image: bool) -> None:
    """Write all files of the release into a new folder."""
    folder = folder.resolve()
    folder.mkdir(parents=True)
    build_distributions(Places(user_cache()), folder)
    for built in sorted(folder.iterdir()):
        bill = bill_of_materials(of=built)
        (folder / f"{built.name}.cdx.json").write_text(bill, encoding="utf-8")
    if with_image:
        # It writes the image's bill of materials next to it.
        target = folder / f"sluice-{__version__}-image.tar"
        subprocess.run([ROOT / "packaging" / "image", target], check=True, stdout=sys.stderr)
    report = [sys.executable, "-P", "-m", "prove", "--report", str(folder)]
    subprocess.run(report, cwd=ROOT, check=True, stdout=sys.stderr)
    (folder / NOTES).write_text(notes, encoding="utf-8")
    sums = [f"{_sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / CHECKSUMS).write_text("".join(sums), encoding="utf-8")
    print("".join(sums), end="")


def _require_releasable(*, publish: bool) -> None:
    """Raise unless everything is committed and, to publish, the commit has the version's tag."""
    if changed := _git("status", "--porcelain"):
        raise ReleaseError(f"The tree has changes that are not committed:\n{changed}")
    if publish and f"v{__version__}" not in _git("tag", "--points-at", "HEAD").splitlines():
        raise ReleaseError(f"The commit has no tag v{__version__}: git tag v{__version__}")


def _publish(folder: Path) -> int:
    tag = f"v{__version__}"
    files = sorted(path for path in folder.iterdir() if path.name != NOTES)
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag]
    return subprocess.run([*command, "--notes-file", folder / NOTES, *files], check=False).returncode


def _git(*arguments: str) -> str:
    outcome = subprocess.run(["git", "-C", ROOT, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return outcome.stdout.rstrip()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
