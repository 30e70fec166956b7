"""Which Java Spark gets."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from servers.environment import JavaRuntime, java_21, java_home, parse_probe, probe

if TYPE_CHECKING:
    from pathlib import Path


def _answer(version: int, *modules: str) -> str:
    lines = [f"java.base@{version}.0.1", *(f"{module}@{version}.0.1" for module in modules)]
    return "\n".join([*lines, "Property settings:", "    java.home = /opt/a java", ""])


@pytest.mark.parametrize(
    ("text", "runs_spark"),
    [
        (_answer(17, "jdk.incubator.vector"), True),
        (_answer(21, "jdk.incubator.vector"), True),
        (_answer(21), False),
        (_answer(25, "jdk.incubator.vector"), False),
        (_answer(11), False),
    ],
)
def test_spark_runs_on_full_17_and_21(text: str, runs_spark: bool) -> None:
    """Only Java 17 and 21 with the vector module count."""
    runtime = parse_probe(text)
    assert runtime is not None
    assert str(runtime.home) == "/opt/a java"
    assert runtime.runs_spark is runs_spark


def test_what_is_no_java_is_passed_over(tmp_path: Path) -> None:
    """A `java` that fails or does not exist is no runtime (as on macOS before one is installed)."""
    stub = tmp_path / "java"
    stub.write_text("#!/bin/sh\nexit 1\n")
    stub.chmod(0o755)
    assert probe(stub) is None
    assert probe(tmp_path / "none") is None
    assert parse_probe("Unable to locate a Java Runtime") is None


def test_without_java_the_packaged_one_drops_the_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With no Java on the machine Spark gets a `java` that accepts the module argument it cannot honour."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = java_home() / "bin" / "java"
    assert java_home() == java.parent.parent
    monkeypatch.undo()
    outcome = subprocess.run(
        [java, "--add-modules=jdk.incubator.vector", "-Da=b c", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "a = b c" in outcome.stderr


def test_java_21_is_one() -> None:
    """The packaged runtime is a Java 21."""
    runtime = probe(java_21() / "bin" / "java")
    assert isinstance(runtime, JavaRuntime)
    assert runtime.version == 21
