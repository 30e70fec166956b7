"""What is counted as a question of kind and as a file that work passes, and what is not."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.met_files import MetFiles
from tests.support.questions import questions

if TYPE_CHECKING:
    from pathlib import Path

KINDS = """
from enum import StrEnum
class BatchKind(StrEnum):
    DRAIN = "drain"
    REPLAY = "replay"
    @property
    def writes_files(self) -> bool: return True
class Layout: ...
class Wide(Layout): ...
FLAT = Layout()
REPLAYS = {BatchKind.REPLAY}
"""
ASKED = {
    "pipeline.is_mirror": "trait",
    "f(is_mirror=pipeline.is_mirror)": "trait",
    "getattr(pipeline, 'is_archive')": "trait",
    "kind.writes_files": "trait",
    "kind is BatchKind.DRAIN": "comparison",
    "kind in {BatchKind.DRAIN, BatchKind.REPLAY}": "comparison",
    "kind in REPLAYS": "comparison",
    "layout is FLAT": "comparison",
    "layout is kinds.FLAT": "comparison",
    "entry['kind'] == 'replay'": "comparison",
    "progress.layout.value != 'mirror'": "comparison",
    "isinstance(layout, Wide)": "class",
    "isinstance(result, ReplayResult)": "class",
    "type(layout) is Wide": "class",
    "{BatchKind.DRAIN: f}[kind]": "table",
}
NO_QUESTIONS = (
    "Batch(kind=BatchKind.DRAIN)",
    "f(is_mirror=True)",
    "word == 'replay'",
    "kind == 'decimal'",
    "isinstance(value, str)",
    "lambda is_drain: 1",
)


def _sorts(folder: Path, **sources: str) -> list[str]:
    sources = {"kinds.py": KINDS, "replay.py": "class ReplayResult: ..."} | {
        f"{name}.py": f"from spark_jobs.a import kinds\nfrom spark_jobs.a.kinds import *\n{text}"
        for name, text in sources.items()
    }
    for name, text in sources.items():
        file = folder / "spark_jobs" / ("b" if name == "other.py" else "a") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        names = "FLAT, REPLAYS, BatchKind, Layout, Wide"
        file.write_text(text.replace("import *", f"import {names}"))
    files = [str(file.relative_to(folder)) for file in sorted(folder.rglob("*.py"))]
    return [question.sort for question in questions(folder, files)]


@pytest.mark.parametrize("source", ASKED)
def test_each_way_to_ask_is_one_question(tmp_path: Path, source: str) -> None:
    """However it is written, once, and under its sort."""
    assert _sorts(tmp_path, asking=source) == [ASKED[source]]


def test_cases_are_questions(tmp_path: Path) -> None:
    """Each case that names a member, its value or its class is one; the rest of a ``match`` is none."""
    cases = ("BatchKind.DRAIN", "'replay' | 'rebuild'", "Wide()", "'decimal'", "_")
    source = "match kind:\n" + "".join(f"    case {case}: ...\n" for case in cases)
    assert _sorts(tmp_path, asking=source) == ["case"] * 3


@pytest.mark.parametrize("source", NO_QUESTIONS)
def test_what_makes_a_member_asks_nothing(tmp_path: Path, source: str) -> None:
    """Nor do declarations, other texts, and other classes."""
    assert _sorts(tmp_path, asking=source) == []


def test_a_question_under_another_name_is_one_where_another_room_reads_it(tmp_path: Path) -> None:
    """Of one room it is that room's own affair; a question counts where it stands, too."""
    named = "def may_wait(kind) -> bool: return kind is BatchKind.DRAIN\n"
    assert _sorts(tmp_path, asking=named, own="may_wait(1)") == ["comparison"]
    assert sorted(_sorts(tmp_path, other="may_wait(1)")) == ["capability"] * 2 + ["comparison"]


def test_files_are_met_by_functions_that_run_and_not_by_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their first calls, in threads too, until the end is told."""
    (tmp_path / "met_imported.py").write_text(
        "def made(): return 1\nclass Body: word = made()\nNUMBER = made()"
    )
    (tmp_path / "met_run.py").write_text("import met_imported\ndef run(): return met_imported.NUMBER")
    (tmp_path / "met_late.py").write_text("def late(): return 2")
    monkeypatch.syspath_prepend(tmp_path)
    met = MetFiles(tmp_path)
    with met:
        importlib.import_module("met_imported")
        run = importlib.import_module("met_run").run
        late = importlib.import_module("met_late").late
        assert met.files == {}
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        importlib.import_module("met_imported").made()
        met.end()
        late()
    assert list(met.files) == ["met_run.py", "met_imported.py"]
