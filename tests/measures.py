"""The product, measured the same way for every change: ``python tests/measures.py [COMMIT ...]``.

Lines: product Python is every .py outside tests/, bench/, prove/ and docs/, after ``ruff format`` at 110
columns, ``__init__.py`` apart. Beside it: C, and data, which is every other text in the product's packages
but locks. Each commit has a line, then the working tree; with one commit the last line is the difference.

``--folders``: the .py files of each product folder itself, largest first.
``--questions``: where code asks which layout or kind of work something is (``tests/support/questions.py``).
``--road``: product files in which a function ran from a sensor's tick to the swap of one batch
(``tests/support/road.py``); it starts a broker.
``--list`` names each place, and files of the road as they are first met. These are of the working tree;
folders and questions may be of one commit instead.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.questions import Question

ROOT = Path(__file__).resolve().parents[1]
NOT_PRODUCT = ("tests", "bench", "prove", "docs")
PACKAGES = ("cli", "orchestration", "assets", "resources", "servers", "gateway", "serving", "spark_jobs")
C_SUFFIXES = (".c", ".h", ".rs")
KINDS = ("python", "__init__", "c", "data")
FORMAT = (
    "format",
    "--isolated",
    "--line-length",
    "110",
    "--target-version",
    "py311",
    "--quiet",
    "--no-cache",
)


def measure(commit: str | None) -> Counter[str]:
    """Return the lines of each of ``KINDS`` at a commit, or in the working tree, new files included."""
    with _tree(commit) as tree:
        _run(str(Path(sys.executable).with_name("ruff")), *FORMAT, str(tree))
        return _count(tree)


@contextmanager
def _tree(commit: str | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        if commit:
            files = _run("git", "archive", commit)
        else:
            present = (name for name in _run(*_LISTING).decode().split("\0") if (ROOT / name).is_file())
            files = _run("tar", "--create", "--null", "--files-from=-", stdin="\0".join(present).encode())
        _run("tar", "--extract", f"--directory={folder}", stdin=files)
        yield Path(folder)


_LISTING = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")


def _run(*command: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(command, cwd=ROOT, input=stdin, check=True, capture_output=True).stdout


def _count(tree: Path) -> Counter[str]:
    lines: Counter[str] = Counter()
    for path in tree.rglob("*"):
        kind = _kind(path.relative_to(tree)) if path.is_file() else ""
        content = path.read_bytes() if kind else b""
        if b"\0" not in content:
            lines[kind] += content.count(b"\n")
    return lines


def _kind(path: PurePath) -> str:
    """Return the kind of a file of the product; empty of all others."""
    if path.parts[0] in NOT_PRODUCT:
        return ""
    if path.suffix == ".py":
        return "__init__" if path.name == "__init__.py" else "python"
    if path.suffix in C_SUFFIXES:
        return "c"
    return "data" if path.parts[0] in PACKAGES and path.suffix != ".lock" else ""


def _sources(tree: Path) -> list[str]:
    """Return the names of the product's .py files."""
    files = (path.relative_to(tree) for path in sorted(tree.rglob("*.py")))
    return [str(file) for file in files if _kind(file)]


def print_lines(commits: list[str]) -> None:
    """Print the table of lines."""
    rows = [(commit, measure(commit)) for commit in commits] + [("working tree", measure(None))]
    if len(commits) == 1:
        rows.append(("difference", Counter({kind: rows[1][1][kind] - rows[0][1][kind] for kind in KINDS})))
    print(f"{'':<14}" + "".join(f"{kind:>10}" for kind in KINDS))
    for name, lines in rows:
        print(f"{name[:14]:<14}" + "".join(f"{lines[kind]:>10,}" for kind in KINDS))


def print_folders(tree: Path) -> None:
    """Print how many .py files each folder has."""
    folders = Counter(str(PurePath(file).parent) for file in _sources(tree))
    print(f"{folders.total():>5} files of {len(folders)} folders")
    for folder, number in sorted(folders.items(), key=lambda each: (-each[1], each[0])):
        print(f"{number:>5} {folder}")


def print_questions(tree: Path, *, is_listed: bool) -> None:
    """Print what is asked, by sort and name, with the files and rooms that ask it."""
    from tests.support import questions

    sources = _sources(tree)
    found = questions.questions(tree, sources)
    print(f"{len(found):>5} questions   {'':<42}{_where(found)}")
    for sort in questions.SORTS:
        of_sort = [question for question in found if question.sort == sort]
        print(f"{len(of_sort):>5} {sort:<12}{'':<42}{_where(of_sort)}")
        for name, asked in questions.by_name(of_sort).items():
            print(f"{len(asked):>5} {'':<12}{name:<42}{_where(asked)}")
            for question in asked if is_listed else ():
                print(f"{'':>18}{question.file}:{question.line}")
    for name, files in questions.as_text(tree, sources).items():
        print(f"{len(files):>5} lines       {name:<42}in {len(set(files))} files")
    every = questions.isinstance_calls(tree, sources)
    print(f"{every.total():>5} isinstance  {'of whatever':<42}in {len(+every)} files")


def _where(asked: list[Question]) -> str:
    from tests.support.questions import room_of

    files = {question.file for question in asked}
    return f"in {len(files)} files of {len(set(map(room_of, files)))} rooms"


def print_road(*, is_listed: bool) -> None:
    """Print how many files a batch's road has, by room."""
    from tests.support.questions import room_of
    from tests.support.road import road

    ours = set(_run(*_LISTING).decode().split("\0"))
    files = road(ROOT, lambda file: str(file) in ours and bool(_kind(file)))
    rooms = Counter(map(room_of, files))
    print(f"{len(files):>5} files of {len(rooms)} rooms, a batch's road")
    for room, number in rooms.most_common():
        print(f"{number:>5} {room}")
    for file in files if is_listed else ():
        print(f"{'':>6}{file}")


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commits", nargs="*", metavar="COMMIT")
    for option in ("--folders", "--questions", "--road", "--list"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    if not (given.folders or given.questions or given.road):
        print_lines(given.commits)
    if given.folders or given.questions:
        with _tree(given.commits[0] if given.commits else None) as tree:
            if given.folders:
                print_folders(tree)
            if given.questions:
                print_questions(tree, is_listed=given.list)
    if given.road:
        print_road(is_listed=given.list)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))  # the script's own folder is there instead
    main()
