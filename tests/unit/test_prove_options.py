"""Options of the proof that exclude each other are refused, not ignored."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from prove.__main__ import main


@pytest.mark.parametrize("other", [("--quick",), ("--only", "sqlite/*")])
def test_a_soak_is_run_alone(other):
    """A selection beside a soak would be left out without a word."""
    ended = CliRunner().invoke(main, ["--soak", "1", *other])
    assert ended.exit_code == 2
    assert "leave out --quick and --only" in ended.output
