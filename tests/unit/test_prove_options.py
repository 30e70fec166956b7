"""Options of the proof that exclude each other are refused, not ignored."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from prove.__main__ import main


@pytest.mark.parametrize("other", [("--quick",), ("--only", "sqlite/*"), ("--resume",), ("--shard", "1/2")])
def test_a_soak_is_run_alone(other):
    """A selection beside a soak would be left out without a word."""
    ended = CliRunner().invoke(main, ["--soak", "1", *other])
    assert ended.exit_code == 2
    assert "leave out every other choice" in ended.output


@pytest.mark.parametrize("shard", ["0/3", "4/3", "3", "a/b"])
def test_a_shard_is_one_of_so_many(shard):
    """A part that does not exist would run nothing and say that all is well."""
    ended = CliRunner().invoke(main, ["--shard", shard])
    assert ended.exit_code == 2
    assert "1/3" in ended.output
