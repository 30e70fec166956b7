"""A program that tells a session's Spark server: what is taken from it, and what is said when it fails."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spark_jobs.config.file import load_config
from spark_jobs.config.secrets import scrub
from spark_jobs.connections.spark_address import ask_for_remote
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError

TOKEN = "hunter2-Tr0ub4dor"
ADDRESS = f"sc://spark.example.com:443/;use_ssl=true;token={TOKEN}"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A place for a program."""
    return tmp_path / "spark-session"


def write(program: Path, script: str) -> tuple[str, ...]:
    """Make it a program of the shell's and return the command."""
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return (str(program), "two words", "$HOME")


def refusal(command: tuple[str, ...], timeout_seconds: float = 60.0) -> SluiceError:
    """Return what asking raises; the token is in none of it."""
    with pytest.raises(SluiceError) as caught:
        ask_for_remote(command, timeout_seconds=timeout_seconds)
    assert "\n" not in str(caught.value)
    assert TOKEN not in f"{caught.value!r}{caught.value}{caught.value.__cause__}{caught.value.hint}"
    return caught.value


def test_its_line_is_the_address_and_its_token_a_secret(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments come as they are written, without a shell, and the environment with them."""
    monkeypatch.setenv("SESSION_TOKEN", TOKEN)
    command = write(program, f'test "$1|$2" = "two words|\\$HOME" && echo "{ADDRESS[:-17]}$SESSION_TOKEN"')
    assert ask_for_remote(command) == ADDRESS
    assert TOKEN not in scrub(f"cannot reach {ADDRESS}")


@pytest.mark.parametrize(
    "script", ["echo", f"echo https://x; echo {ADDRESS}", f"echo '{TOKEN}'", f"echo '{ADDRESS} {TOKEN}'"]
)
def test_what_is_no_address_is_not_used(program: Path, script: str) -> None:
    """Nothing, two lines, something else: the error names the program, and what it printed is not shown."""
    refused = refusal(write(program, script))
    assert isinstance(refused, ConfigError)
    assert str(program) in str(refused)


def test_a_program_that_cannot_be_run_is_named(program: Path) -> None:
    """One that is not there, and one that may not be executed."""
    assert "No such file" in str(refusal((str(program),)))
    program.touch()
    assert refusal((str(program),)).code == "spark-command-unusable"


def test_a_failure_is_told_by_its_last_words(program: Path) -> None:
    """The next run may find it better; a token that it had printed already is not shown."""
    failed = refusal(write(program, f"echo '{ADDRESS}'; echo one >&2; echo 'no quota, {TOKEN}' >&2; exit 3"))
    assert isinstance(failed, RetryableError)
    assert "exit code 3: no quota, ***" in str(failed)


def test_one_that_does_not_end_is_stopped_with_all_it_started(program: Path) -> None:
    """Also a child that holds its output open: nobody waits for that."""
    command = write(program, f"sleep 600 & echo $! > {program}.child; wait")
    assert "did not end within 1 s" in str(refusal(command, timeout_seconds=1.0))
    child = int(Path(f"{program}.child").read_text())
    for _ in range(100):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child lives")


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{remote_command: session}", "not an absolute path"),
        ("{remote_command: []}", "not a program"),
        ("{remote_command: [/bin/session], remote: 'sc://a:1'}", "has both remote and remote_command"),
        ("{ship_python: true}", "server that Sluice does not start"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, written: str, told: str) -> None:
    """Before anything runs."""
    file = tmp_path / "sluice.yaml"
    file.write_text(f"version: 1\nspark: {written}\n")
    with pytest.raises(ConfigError, match=told):
        load_config(file)
