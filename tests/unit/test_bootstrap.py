"""Set-up: what it locks, translates for its tools, and lets commands see of the user's environment."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bootstrap.environments import child_environment, uv_variables
from bootstrap.install import _link, ensure_installed, is_installed
from bootstrap.launch import extras_asked_for, launch
from bootstrap.places import EXTRAS, LOCKS, ROOT, Places, lock_key, lock_path
from bootstrap.without_setup import answer
from cli.listing import COMMANDS
from prove.lab.azurite import NoNodeError, start_azurite
from prove.lab.browser_setup import NoBrowserError, browser
from servers.cache import user_cache
from servers.process import ServerFolder
from spark_jobs import __version__
from spark_jobs.config.file_models import Extra

NAMED = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def test_locks_carry_hashes_and_no_addresses() -> None:
    """Every locked package has a hash, and no lock or input names a place to fetch it from."""
    for path in (*LOCKS.glob("*.txt"), *LOCKS.glob("*.in")):
        text = path.read_text()
        assert "://" not in text
        assert "--index" not in text
        if path.suffix == ".txt":
            assert len(NAMED.findall(text)) == len(re.findall(r"==[^\n]* \\\n    --hash=sha256:", text))


def test_development_adds_to_what_runs() -> None:
    """Tests run on exactly the versions that users get."""
    run, dev = (dict(NAMED.findall(lock_path(name).read_text())) for name in ("run", "dev"))
    assert run.items() <= dev.items()


def test_extras_change_no_version() -> None:
    """Whoever installs one has it beside exactly what is there, tests included; each may be written."""
    dev = dict(NAMED.findall(lock_path("dev").read_text()))
    for extra in EXTRAS:
        locked = dict(NAMED.findall(lock_path(extra).read_text()))
        assert {name: dev.get(name, version) for name, version in locked.items()} == locked
    assert {extra.value for extra in Extra} == set(EXTRAS)


@pytest.mark.parametrize(
    ("text", "extras"),
    [
        ("extras: [postgres, msk]\n", ("msk", "postgres")),
        ("version: 1\nextras: postgres  # msk\npipelines: {msk: {topic: t, table: n.t}}\n", ("postgres",)),
        ("extras:\n  # - postgres\n  - msk\n- postgres\n", ("msk", "postgres")),
        ("extras:\n- msk\nkafka: {client.id: postgres}\n", ("msk",)),
        ("version: 1  # extras: [msk]\n", ()),
        ("extras: [nothing, postgres\n  , msk]\n", ("msk", "postgres")),
    ],
)
def test_extras_are_read_before_there_is_a_reader_of_yaml(
    tmp_path: Path, text: str, extras: tuple[str, ...]
) -> None:
    """The launcher finds what the configuration asks for, wherever the command line says that it is."""
    file = tmp_path / "some.yaml"
    file.write_text(text)
    assert extras_asked_for(["drain", "--config", str(file)], {}) == extras
    assert extras_asked_for([f"--config={file}", "drain"], {}) == extras
    assert extras_asked_for(["drain"], {"SLUICE_CONFIG": str(file)}) == extras
    assert extras_asked_for(["drain"], {"SLUICE_CONFIG": str(tmp_path / "gone.yaml")}) == ()
    assert extras_asked_for(["drain"], {"SLUICE_CONFIG_YAML": text}) == extras


def test_launcher_is_readable_by_old_pythons() -> None:
    """The launcher's own file parses in the oldest Python 3 anybody has, so that it can say what is wrong."""
    ast.parse((ROOT / "sluice").read_text(), feature_version=(3, 4))


def test_pip_settings_become_uvs() -> None:
    """An index, proxy and certificate given to pip by file or variable reach uv; variables win over files."""
    listing = r"""
global.cert='/etc/ca.pem'
global.index-url='https://from.file/simple'
install.trusted-host='\na.example\nb.example'
global.timeout='60'
:env:.index-url='https://from.variable/simple'
"""
    assert uv_variables(listing, {}) == {
        "UV_DEFAULT_INDEX": "https://from.variable/simple",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "UV_INSECURE_HOST": "a.example b.example",
    }


def test_uv_settings_of_the_user_win() -> None:
    """What the user set for uv stays; other tools' certificates serve when nothing else does."""
    user = {"UV_DEFAULT_INDEX": "https://mine/simple", "REQUESTS_CA_BUNDLE": "/ca.pem"}
    assert uv_variables("global.index-url='https://other/simple'", user) == {"SSL_CERT_FILE": "/ca.pem"}
    extra = uv_variables("user.cert='/no.pem'\nglobal.extra-index-url='https://more/simple'", {})
    assert extra == {"UV_INDEX": "https://more/simple", "UV_INDEX_STRATEGY": "unsafe-best-match"}


def test_foreign_set_up_does_not_leak(tmp_path: Path) -> None:
    """Commands see our interpreter and an empty PyIceberg configuration, whatever the user's shell has."""
    foreign = ("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONF_DIR", "DAGSTER_HOME", "PYTHONHOME", "PYTHONPATH")
    foreign += ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    user = dict.fromkeys(foreign, "x") | {
        "PYSPARK_PYTHON": "x",
        "PYICEBERG_CATALOG__SLUICE__URI": "x",
        "PYICEBERG_HOME": "x",
        "PIP_CERT": "/ca.pem",
        "AWS_PROFILE": "kept",
        "PATH": "/usr/bin",
    }
    places = Places(tmp_path)
    assert child_environment(user, places) == {
        "AWS_PROFILE": "kept",
        "PIP_CERT": "/ca.pem",
        "REQUESTS_CA_BUNDLE": "/ca.pem",
        "PATH": f"{places.environment}/bin:/usr/bin",
        "PYSPARK_PYTHON": str(places.python),
        "PYSPARK_DRIVER_PYTHON": str(places.python),
        "PYICEBERG_HOME": str(LOCKS / "pyiceberg"),
        "XDG_CACHE_HOME": str(tmp_path.parent),
        "PYTHONPYCACHEPREFIX": str(places.bytecode),
    }


@pytest.mark.parametrize(
    ("held", "asked", "enough"), [("run", "run", True), ("dev", "run", True), ("run", "dev", False)]
)
def test_set_up_is_done_once(tmp_path: Path, held: str, asked: str, enough: bool) -> None:
    """An environment that holds the lock, or the larger one, is used as it is; an older lock is not."""
    places = Places(tmp_path)
    places.python.parent.mkdir(parents=True)
    places.python.touch()
    places.stamp.write_text(lock_key(held))
    assert is_installed(places, asked) is enough
    if enough:
        ensure_installed(places, asked)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["env"]
    places.stamp.write_text(f"{asked} of an older lock")
    assert not is_installed(places, asked)


def test_an_extra_is_held_beside_the_set_of_the_same_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is installed once, with what was there; when the set's lock changes, what was asked for stays."""
    places, made = Places(tmp_path), []
    places.python.parent.mkdir(parents=True)
    places.python.touch()
    places.stamp.write_text(f"{lock_key('dev')}\n{lock_key('msk')}")
    monkeypatch.setattr("bootstrap.install._install", lambda *of: made.append(of))
    assert is_installed(places, "run", ["msk"])
    ensure_installed(places, "run", ["msk"])
    ensure_installed(places, "run", ["postgres"])
    places.stamp.write_text(f"run of an older lock\n{lock_key('msk')}")
    ensure_installed(places, "run")
    assert made == [(places, "dev", ["msk", "postgres"]), (places, "run", ["msk"])]


def test_clones_share_the_cache_and_not_the_environment(tmp_path: Path) -> None:
    """Two clones have environments of their own over one package cache."""
    one, other = Places(tmp_path, Path("/a")), Places(tmp_path, Path("/b"))
    assert one.environment != other.environment
    assert one.packages == other.packages


def test_a_browser_that_cannot_be_had_is_said_how_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a browser and a package manager one reads what to type, and all other tests can run."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        NoBrowserError, match=r"(?s)no apt-get.*apt-get install --no-install-recommends chromium"
    ):
        browser()


def test_azurite_without_node_is_said_how_to_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed, and one reads what to type."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoNodeError, match=r"(?s)no node on the PATH.*apt-get install .* nodejs npm"):
        start_azurite(ServerFolder(tmp_path, "azurite"))
    assert not list(tmp_path.iterdir())


def test_help_version_and_typos_need_no_set_up(tmp_path: Path) -> None:
    """In a new clone they are answered at once, by the launcher's own Python; nothing is made or fetched."""
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}

    def said(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-S", str(ROOT / "sluice"), *arguments]
        outcome = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return outcome.returncode, outcome.stdout + outcome.stderr

    assert all(said(*arguments)[0] == 0 for arguments in [(), ("--help",), ("drain", "-h")])
    assert said("--version") == (0, f"sluice {__version__}\n")
    code, text = said("drian", "--help")
    assert (code, "Did you mean drain?" in text) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_each_command_is_explained_without_set_up() -> None:
    """The listing names every command, and each one's own help is there with its options."""
    listing = answer([])
    assert listing is not None
    for entry in COMMANDS:
        said = answer([entry.name, "--help"])
        assert f"{entry.name} " in listing[0]
        assert said is not None
        assert said[0].startswith(f"./sluice {entry.name}")
        assert re.findall(r"^[#|].*|\]\(|\*\*|```", said[0], re.MULTILINE) == []
    assert answer(["drain", "orders"]) is None


def test_a_user_without_a_home_has_the_clone_s_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither HOME nor an entry in the list of users: set-up goes into the clone, and no traceback comes."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", _no_entry)
    assert user_cache() == ROOT / ".cache" / "sluice"


def _no_entry(uid: int) -> None:
    raise KeyError(f"getpwuid(): uid not found: {uid}")


def test_a_cache_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says which variable names another; as where HOME is the root folder."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert launch(["status"]) == 69
    assert "XDG_CACHE_HOME" in capsys.readouterr().err


def test_a_new_clone_in_the_folder_of_an_old_one_is_linked(tmp_path: Path) -> None:
    """Its environment is the old one's and complete, so nothing is installed."""
    places = Places(tmp_path / "cache", tmp_path)
    places.python.parent.mkdir(parents=True)
    places.python.touch()
    places.stamp.write_text(lock_key("dev"))
    ensure_installed(places, "dev")
    assert places.link.readlink() == places.environment


def test_a_link_to_an_environment_stays_and_one_to_none_is_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set-up in another cache folder leaves an `up` what it runs from, and says how to link its own."""
    first, second = (Places(tmp_path / name, tmp_path) for name in ("first", "second"))
    for places in (first, second):
        places.environment.mkdir(parents=True)
    _link(first)
    _link(first)
    assert capsys.readouterr().err == ""
    _link(second)
    assert first.link.readlink() == first.environment
    assert f"\n  ln -sfn {second.environment} {second.link}\n" in capsys.readouterr().err
    first.environment.rmdir()
    _link(second)
    assert first.link.readlink() == second.environment
