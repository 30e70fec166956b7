"""The command line's frame: help, options, exit codes, errors."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli import app
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError

ROOT = Path(__file__).resolve().parents[2]


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as the launcher does."""
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments], capture_output=True, text=True, check=False
    )


def test_help_groups_every_command_and_imports_none() -> None:
    """``--help`` lists use, operate and develop with all commands, and loads no heavy library."""
    code = (
        "import sys; from cli.app import main; main(['--help']);"
        "heavy = {'dagster', 'pyspark', 'pyarrow', 'pyiceberg', 'confluent_kafka', 'pydantic', 'rich'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sections = [line for line in done.stdout.splitlines() if line in {"Use:", "Operate:", "Develop:"}]
    assert sections == ["Use:", "Operate:", "Develop:"]
    assert all(f"  {entry.name}" in done.stdout for entry in app.COMMANDS)


@pytest.mark.parametrize("entry", app.COMMANDS, ids=lambda entry: entry.name)
def test_every_command_loads_and_takes_the_common_options(entry: app.Entry) -> None:
    """Each name leads to a command that accepts the common ones."""
    command = app.sluice.get_command(click.Context(app.sluice), entry.name)
    assert command is not None
    assert command.name == entry.name
    assert {"--config", "--debug", "--log-level"} <= {
        option for parameter in command.params for option in parameter.opts
    }


def test_an_unknown_command_is_one_line_with_exit_code_2() -> None:
    """A mistyped command is refused with click's usage line, without a traceback."""
    done = run_cli("drian")
    assert done.returncode == 2
    assert "No such command 'drian'" in done.stderr
    assert "Traceback" not in done.stderr


def with_command_that_raises(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make every command name lead to one that raises ``error``."""

    def fail() -> None:
        raise error

    monkeypatch.setattr(app.SluiceGroup, "get_command", lambda *_: click.Command("fails", callback=fail))


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (ConfigError("no such thing", code="no-such-thing", hint="Make one.", topic="t"), 78),
        (RetryableError("away", code="broker-away", hint="Wait."), 75),
    ],
)
def test_an_error_is_a_line_a_hint_and_an_anchor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: SluiceError, exit_code: int
) -> None:
    """A named error prints what, where, hint and anchor to standard error and exits with its own code."""
    with_command_that_raises(monkeypatch, error)
    assert app.main(["fails"]) == exit_code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert error.message in printed.err
    assert f"hint: {error.hint}" in printed.err
    assert f"docs/reference/errors.md#{error.code}" in printed.err
    assert "Traceback" not in printed.err


def test_an_unexpected_error_shows_its_traceback_only_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug is one short line and exit code 70; ``--debug`` adds the traceback."""
    with_command_that_raises(monkeypatch, KeyError("at org.apache.spark " * 1_000))
    assert app.main(["fails"]) == app.EXIT_UNEXPECTED
    told = capsys.readouterr().err
    assert ("Traceback" in told, len(told) < 600) == (False, True)
    assert app.main(["--debug", "fails"]) == app.EXIT_UNEXPECTED
    assert "Traceback" in capsys.readouterr().err


def test_config_is_taken_before_and_after_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--config FILE`` reaches child processes through SLUICE_CONFIG wherever it stands."""
    seen: list[str] = []
    command = click.Command("fails", callback=lambda: seen.append(os.environ["SLUICE_CONFIG"]))
    command.params.extend(app.common_options())
    monkeypatch.setattr(app.SluiceGroup, "get_command", lambda *_: command)
    monkeypatch.setenv("SLUICE_CONFIG", "")
    assert app.main(["--config", "/a.yaml", "fails"]) == 0
    assert app.main(["fails", "--config", "/b.yaml"]) == 0
    assert seen == ["/a.yaml", "/b.yaml"]


@pytest.mark.parametrize(
    ("words", "variable", "told"),
    [
        ([], "", ["how", "warning: careful"]),
        ([], "WARNING", ["warning: careful"]),
        (["--log-level", "error"], "debug", []),
        (["--log-level", "debug"], "", ["why", "how", "warning: careful"]),
    ],
)
def test_what_is_told_on_the_way_goes_by_the_level(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    variable: str,
    told: list[str],
) -> None:
    """On standard error, before and after the command's name; the option wins over the environment."""
    log = logging.getLogger("spark_jobs.drain")

    def work() -> None:
        log.debug("why")
        log.info("how")
        log.warning("careful")

    command = click.Command("works", callback=work)
    command.params.extend(app.common_options())
    monkeypatch.setattr(app.SluiceGroup, "get_command", lambda *_: command)
    for line in ([*words, "works"], ["works", *words]):
        monkeypatch.setenv("SLUICE_LOG_LEVEL", variable)
        assert app.main(line) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err.splitlines()) == ("", told)


def test_a_level_that_there_is_not_is_a_mistake(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 78, with those that there are."""
    monkeypatch.setenv("SLUICE_LOG_LEVEL", "loud")
    assert app.main(["validate"]) == 78
    assert "Choose one of debug, info, warning, error." in capsys.readouterr().err


def test_the_launchers_commands_say_who_runs_them() -> None:
    """``lint`` and ``test`` without the launcher name it instead of half-running."""
    for command in (["lint"], ["test", "-k", "status"]):
        done = run_cli(*command)
        assert done.returncode == 78
        assert f"./sluice {command[0]}" in done.stderr


@pytest.mark.parametrize("command", ["lint", "test", "prove", "bench"])
def test_the_developers_commands_have_help(command: str) -> None:
    """``--help`` explains and runs nothing, under the name that was typed."""
    done = subprocess.run([ROOT / "sluice", command, "-h"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"Usage: ./sluice {command} ")


def test_lint_takes_no_arguments() -> None:
    """What it would pass over is refused: it always checks everything."""
    done = subprocess.run([ROOT / "sluice", "lint", "cli"], capture_output=True, text=True, check=False)
    assert (done.returncode, "unexpected extra argument" in done.stderr) == (2, True)


def test_the_page_to_find_a_command_names_every_command() -> None:
    """Its table has people type what exists, and leaves nothing out."""
    page = (ROOT / "docs/how-to/find-a-command.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    named = {word for row in rows for word in re.findall(r"`([a-z]+)(?: [^`]*)?`", row)}
    assert named == {entry.name for entry in app.COMMANDS}
