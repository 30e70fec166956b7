"""A wheel of Sluice: what it needs comes with it, and so does its command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bootstrap.install import make_movable
from bootstrap.places import Places, user_cache
from spark_jobs import __version__


def test_a_wheel_brings_its_command_and_names_what_it_needs(tmp_path: Path) -> None:
    """Beside the locked packages nothing is missing that it asks for, and it runs where there is no clone."""
    places = Places(user_cache())
    make_movable(places, tmp_path / "environment")
    moved = (tmp_path / "environment").rename(tmp_path / "moved")
    needed = subprocess.run(
        [
            moved / "bin" / "python",
            "-c",
            "from importlib.metadata import requires as r; print(*r('sluice'), sep='\\n')",
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    lines = (places.clone / "bootstrap" / "requirements.in").read_text().splitlines()
    assert len(needed.stdout.splitlines()) == len([line for line in lines if line and line[0] != "#"])
    (uv,) = (places.cache / "tools").glob("uv-*/bin/uv")
    checked = subprocess.run(
        [uv, "pip", "check", "--python", moved / "bin" / "python"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    said = subprocess.run(
        [moved / "bin" / "sluice", "--version"],
        env=kept,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == f"sluice {__version__}"
