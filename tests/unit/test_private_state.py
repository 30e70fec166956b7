"""What stands in the state folder and in Spark's settings is this user's alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from resources.spark_session import _Channel
from servers.process import ServerFolder
from servers.spark_connect import SparkConnectSettings, write_conf
from spark_jobs.storage.state_files import make_private, secret_of


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_state_folder_is_made_private_and_a_wider_one_is_narrowed(tmp_path: Path) -> None:
    """Records lie there as they came, and the catalog's database."""
    home = tmp_path / "home"
    make_private(home)
    assert _mode(home) == 0o700
    home.chmod(0o755)
    make_private(home)
    assert _mode(home) == 0o700


def test_a_state_folder_that_cannot_be_written_is_left_alone() -> None:
    """Runs with a lake elsewhere need none; nobody can make a folder in ``/sys``."""
    make_private(Path("/sys/sluice"))
    assert not Path("/sys/sluice").exists()


def test_a_secret_is_made_once_and_stays(tmp_path: Path) -> None:
    """Each process that asks gets the same bytes; nobody else may read them."""
    file = tmp_path / "session.secret"
    secret = secret_of(file)
    assert len(secret) == 32
    assert secret_of(file) == secret
    assert secret_of(tmp_path / "another.secret") != secret
    assert _mode(file) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"session.secret", "another.secret"}


def test_settings_of_spark_stand_in_a_file_of_this_users(tmp_path: Path) -> None:
    """Whatever their key is called: a command line is everybody's to read."""
    conf = {"spark.executorEnv.PGPASS": "hidden", "spark.regex": r"a\.b"}
    folder = ServerFolder(tmp_path, "spark")
    file = write_conf(SparkConnectSettings(folder, tmp_path / "home", 15002, 2, conf=conf))
    assert _mode(file) == 0o600
    lines = file.read_text().splitlines()
    assert "spark.executorEnv.PGPASS hidden" in lines
    assert r"spark.regex a\\.b" in lines


@pytest.mark.parametrize(
    ("remote", "endpoint"),
    [
        ("sc://localhost:15002/;token=t", "127.0.0.1:15002"),
        ("sc://localhost:15002/;token=t;use_ssl=true", "localhost:15002"),
        ("sc://localhost:15002", "localhost:15002"),
        ("sc://spark:15002/;token=t;use_ssl=true", "spark:15002"),
    ],
)
def test_our_servers_token_goes_to_the_address_it_listens_on(remote: str, endpoint: str) -> None:
    """Another user's program on ``[::1]`` is called localhost as well, and would be sent it."""
    assert _Channel(remote).endpoint == endpoint
