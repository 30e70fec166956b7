"""The C that decodes JSON, as a program of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.hostile import sanitized
from prove.hostile.json_corpus import corpus
from prove.lab.left_out import LeftOut

if TYPE_CHECKING:
    from pathlib import Path


def test_sanitizers_report_nothing_over_the_corpus(tmp_path: Path) -> None:
    """And the program takes and leaves what the module does; `./sluice prove` has the corpus damaged, too."""
    try:
        program, _ = sanitized.build(tmp_path)
    except LeftOut as reason:
        pytest.skip(str(reason))
    values = [value for _, value in corpus()]
    for ignores in (False, True):
        assert sanitized.differences(program, [values], ignores=ignores) == (0, "")


def test_without_a_compiler_it_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do is stated."""
    monkeypatch.setattr("prove.hostile.sanitized._compilers", lambda: iter(()))
    with pytest.raises(LeftOut, match=r"install gcc or clang, or run `\./sluice native --build`"):
        sanitized.build(tmp_path)
