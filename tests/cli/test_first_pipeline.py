"""The tutorial: its commands are typed, from an empty home, against a real broker."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import unique_name
from tests.support.forked_command import run_forked

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs/tutorial/first-pipeline.md").read_text(encoding="utf-8")
BROKER, TOPIC, CLONE = "localhost:9092", "first_orders", "URL-OF-THIS-REPOSITORY"
UP_SECONDS, DRAIN_SECONDS, COMMAND_SECONDS = 120.0, 120.0, 300.0


class Terminal:
    """A terminal with an empty home, and a topic that no other test uses in the place of the page's."""

    def __init__(self, home: Path, broker: str) -> None:
        """Keep the packages and jars that are there, so that nothing is downloaded."""
        self.home, self.broker, self.topic = home, broker, unique_name("orders").replace("-", "_")
        self.folder, self.shown = home, ""
        self.up: subprocess.Popen[bytes] | None = None
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "JAVA_HOME") if name in os.environ}
        self.environment = {**kept, "HOME": str(home), "XDG_CACHE_HOME": cache}

    def own(self, text: str) -> str:
        """Return the page's text with this test's broker, topic and clone."""
        return text.replace(BROKER, self.broker).replace(TOPIC, self.topic).replace(CLONE, str(ROOT))

    def run(self, block: str) -> None:
        """Run a block of shell commands and keep what the last one printed."""
        if "<<" in block:
            code = self.own(block).partition("\n")[2].rpartition("PYTHON")[0]
            subprocess.run([sys.executable, "-c", code], env=self.environment, check=True)
            return
        for line in self.own(block).splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["./sluice", "up"]:
                self._start_up()
            elif words[:2] == ["./sluice", "status"]:
                self._wait_until_caught_up(words)
            elif words[0] == "cd":
                self.folder /= words[1]
            elif words[0] == "./sluice" and "--help" not in words:
                self.shown = self._command(words)
            else:
                done = subprocess.run(
                    words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
                )
                self.shown = done.stdout

    def _command(self, words: list[str]) -> str:
        done = run_forked(
            words[1:], cwd=self.home, environment=self.environment, timeout_seconds=COMMAND_SECONDS
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start_up(self) -> None:
        log = self.home / "up.out"
        command = [sys.executable, "-m", "cli", "up", "--port", "0"]
        with log.open("wb") as out:
            self.up = subprocess.Popen(command, stdout=out, stderr=out, cwd=self.home, env=self.environment)
        deadline = time.monotonic() + UP_SECONDS
        while "stop it with Ctrl-C" not in log.read_text():
            assert self.up.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)

    def _wait_until_caught_up(self, words: list[str]) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        while "caught-up" not in (shown := self._command(words)):
            assert time.monotonic() < deadline, shown
            time.sleep(2)
        self.shown = shown


@pytest.mark.timeout(900)
@pytest.mark.kafka
@pytest.mark.spark
def test_the_tutorial_does_what_it_shows(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Each code block is run, in the page's order, and prints the lines that the page shows."""
    terminal = Terminal(tmp_path, str(kafka))
    try:
        for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", TUTORIAL, re.DOTALL | re.MULTILINE):
            if language == "yaml":
                (tmp_path / "sluice.yaml").write_text(terminal.own(block))
            elif language == "text":
                missing = [
                    line for line in terminal.own(block).splitlines() if not is_in(line, terminal.shown)
                ]
                assert not missing, terminal.shown
            else:
                terminal.run(block)
    finally:
        if terminal.up is not None and terminal.up.poll() is None:
            terminal.up.terminate()
            terminal.up.wait(30)
    assert not (tmp_path / ".sluice").exists()


def is_in(line: str, shown: str) -> bool:
    """True if the line was shown, blanks apart; one that ends in dots is the beginning of a line."""
    wanted = " ".join(line.split())
    lines = [" ".join(each.split()) for each in shown.splitlines()]
    if wanted.endswith("..."):
        return any(each.startswith(wanted.removesuffix("...")) for each in lines)
    return wanted in lines
