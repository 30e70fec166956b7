"""Lines of the product, counted the same way for every change: ``python tests/measures.py [COMMIT ...]``.

Product Python is every .py outside tests/, bench/, prove/ and docs/, after ``ruff format`` at 110 columns,
``__init__.py`` apart. Beside it: C, and data, which is every other text in the product's packages but locks.
Each commit has a line, then the working tree; with one commit the last line is the difference to it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[1]
NOT_PRODUCT = ("tests", "bench", "prove", "docs")
PACKAGES = ("cli", "orchestration", "assets", "resources", "servers", "spark_jobs")
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
    with tempfile.TemporaryDirectory() as folder:
        if commit:
            files = _run("git", "archive", commit)
        else:
            present = (name for name in _run(*_LISTING).decode().split("\0") if (ROOT / name).is_file())
            files = _run("tar", "--create", "--null", "--files-from=-", stdin="\0".join(present).encode())
        _run("tar", "--extract", f"--directory={folder}", stdin=files)
        _run(str(Path(sys.executable).with_name("ruff")), *FORMAT, folder)
        return _count(Path(folder))


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


def main(commits: list[str]) -> None:
    """Print the table."""
    rows = [(commit, measure(commit)) for commit in commits] + [("working tree", measure(None))]
    if len(commits) == 1:
        rows.append(("difference", Counter({kind: rows[1][1][kind] - rows[0][1][kind] for kind in KINDS})))
    print(f"{'':<14}" + "".join(f"{kind:>10}" for kind in KINDS))
    for name, lines in rows:
        print(f"{name[:14]:<14}" + "".join(f"{lines[kind]:>10,}" for kind in KINDS))


if __name__ == "__main__":
    main(sys.argv[1:])
