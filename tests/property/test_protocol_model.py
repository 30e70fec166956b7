"""Every interleaving of a few runs, killed, paused or answered late at any step: the protocol holds.

And for each of its rules: without it, the same search finds a table that is damaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.core import progress
from spark_jobs.core.log_names import is_settled
from spark_jobs.core.recovery import Decision, Verdict, decide
from tests.support.protocol_model import Model, Rules, progress_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables that remember only their very last commit: recovery comes after many others have committed."""
    monkeypatch.setattr(progress, "LAST_COMMITS_KEPT", 1)
    progress_of.cache_clear()
    yield
    progress_of.cache_clear()


@pytest.mark.parametrize(
    ("runs", "last_offset", "fileless"),
    [
        pytest.param(3, 1, frozenset(), id="first-batch"),
        pytest.param(3, 1, frozenset({0}), id="first-batch-without-files"),
        pytest.param(3, 2, frozenset({1}), id="two-batches"),
        pytest.param(2, 3, frozenset(), id="three-batches"),
    ],
)
def test_every_offset_once_whatever_happens(runs: int, last_offset: int, fileless: frozenset[int]) -> None:
    """Whatever is killed, paused or late: each offset once, no named file gone, no stray file left."""
    assert Model(Rules(), runs, last_offset, fileless).explore() > 1_000


def test_upkeep_may_move_main_at_any_time() -> None:
    """A compaction between load and swap costs a retry and nothing else."""
    assert Model(Rules(), 3, 1, has_upkeep=True).explore() > 1_000


@pytest.mark.usefixtures("short_memory")
def test_recovery_long_after_the_commit() -> None:
    """The same when the table no longer remembers an attempt that landed."""
    assert Model(Rules(), 2, 3).explore() > 1_000


def sweep_without_fence(*args: Any, **facts: Any) -> Verdict:
    """Broken: what did not land is swept at once."""
    verdict = decide(*args, **facts)
    return Verdict(Decision.SWEEP, "") if verdict.decision is Decision.LEAVE else verdict


def redo_what_landed(*args: Any, **facts: Any) -> Verdict:
    """Broken: what landed is not noticed, and its files are swept as if it had not."""
    verdict = decide(*args, **facts)
    return Verdict(Decision.SWEEP, "") if verdict.decision is Decision.MARK else verdict


def never_sweep(*args: Any, **facts: Any) -> Verdict:
    """Broken: nothing is ever swept."""
    verdict = decide(*args, **facts)
    return Verdict(Decision.LEAVE, "") if verdict.decision is Decision.SWEEP else verdict


def swept_is_forgotten(names: dict[str, int], **when: int) -> bool:
    """Broken: a swept attempt is never looked at again, though it may still be writing."""
    return any("Swept" in name for name in names) or is_settled(names, **when)


BROKEN = {
    "sweep-without-fence": (Rules(decide=sweep_without_fence), "files that are gone"),
    "delete-when-unknown": (Rules(deletes_when_unknown=True), "files that are gone"),
    "commit-without-comparing-offsets": (Rules(may_commit=lambda *_: True), "doubled or lost"),
    "never-sweep": (Rules(decide=never_sweep), "stray files|stays unfinished"),
    "forget-what-was-swept": (Rules(is_settled=swept_is_forgotten), "stray files"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_each_rule_is_needed(broken: str) -> None:
    """With one rule broken the search finds the damage that the rule prevents."""
    rules, damage = BROKEN[broken]
    with pytest.raises(AssertionError, match=damage):
        Model(rules, 3, 1).explore()


@pytest.mark.usefixtures("short_memory")
def test_conflict_is_no_reason_to_delete() -> None:
    """A run that deletes its files on a conflict takes them from the table when they were adopted."""
    with pytest.raises(AssertionError, match="files that are gone"):
        Model(Rules(deletes_on_conflict=True), 2, 2).explore()


@pytest.mark.usefixtures("short_memory")
def test_names_are_needed_beside_the_fence() -> None:
    """With the fence alone, an attempt that landed and was forgotten loses the files its rows are in."""
    rules = Rules(
        decide=lambda *args, **facts: decide(*args, **facts | {"names_its_files": lambda: False}),
        unnamed_files=lambda found, **_: tuple(found),
    )
    with pytest.raises(AssertionError, match="files that are gone"):
        Model(rules, 2, 3).explore()


@pytest.mark.usefixtures("short_memory")
def test_sweep_looks_at_names_itself() -> None:
    """Even when landing went unnoticed, a sweep that looks at names damages no table."""
    assert Model(Rules(decide=redo_what_landed), 2, 2).explore() > 1_000
    blind = replace(Rules(decide=redo_what_landed), unnamed_files=lambda found, **_: tuple(found))
    with pytest.raises(AssertionError, match="files that are gone"):
        Model(blind, 2, 2).explore()
