"""Which folders ``reset`` deletes, and what it says it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands.reset import kept
from spark_jobs.config.build import build_config
from spark_jobs.config.file import parse_document
from spark_jobs.storage.state_files import foreign_entries, make_state_folder

HOME = "/srv/.sluice"


@pytest.mark.parametrize(
    ("key", "place", "is_kept"),
    [
        ("state", f"file://{HOME}/log", False),
        ("state", f"file:{HOME}/./log", False),
        ("state", f"file://{HOME}-of-another/log", True),
        ("state", "s3://bucket/log", True),
        ("warehouse", f"file:{HOME}/lake", False),
        ("warehouse", f"file://{HOME}-of-another/lake", True),
        ("uri", f"sqlite:///{HOME}/catalog.db", False),
        ("uri", f"sqlite:///{HOME}-of-another/catalog.db", True),
    ],
)
def test_what_lies_outside_the_state_folder_is_said_to_stay(key: str, place: str, is_kept: bool) -> None:
    """Places are compared as everywhere: by their one spelling, and folder by folder."""
    catalog = {"uri": f"sqlite:///{HOME}/catalog.db", "warehouse": f"file://{HOME}/lake"}
    state = f"file://{HOME}/log"
    if key == "state":
        state = place
    else:
        catalog[key] = place
    text = f"version: 1\nstate: {state}\ncatalog:\n"
    text += "".join(f"  {name}: {value}\n" for name, value in {"type": "sql", **catalog}.items())
    document, problems = parse_document("sluice.yaml", text)
    assert document is not None
    built = build_config(document, (), home=HOME, folder="/srv")
    assert not [*problems, *built.problems]
    assert built.config is not None
    assert bool([line for line in kept(built.config) if "topics" not in line]) is is_kept


@pytest.mark.parametrize("before", [(), ("log", "lake", "demo.yaml", "failures", "gateway", "run")])
def test_a_state_folder_is_known_by_its_marker(tmp_path: Path, before: tuple[str, ...]) -> None:
    """Whatever Sluice puts there later; folders that an earlier version made are marked at once."""
    home = tmp_path / "home"
    for name in before:
        (home / name).mkdir(parents=True)
    assert not before or not foreign_entries(home)
    make_state_folder(home)
    (home / "of-a-later-version").mkdir()
    make_state_folder(home)
    assert foreign_entries(home) == []


def test_a_folder_of_somebody_elses_is_never_marked(tmp_path: Path) -> None:
    """Also where Sluice has worked in it, as by a mistyped SLUICE_HOME."""
    (tmp_path / "thesis.txt").touch()
    make_state_folder(tmp_path)
    (tmp_path / "log").mkdir()
    make_state_folder(tmp_path)
    assert foreign_entries(tmp_path) == ["thesis.txt"]
