"""Every interleaving of a few runs, killed, paused or answered late at any step: the protocol holds.

And for each of its rules: without it, the same search finds a table that is damaged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.protocol import progress
from spark_jobs.protocol.fences import stands_at_starts
from spark_jobs.recovery.decide import Decision, Verdict, decide
from spark_jobs.txlog.phases import is_settled
from tests.support.protocol_dead_letters import dead_progress_of
from tests.support.protocol_model import Model, Rules
from tests.support.protocol_world import progress_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.progress import Progress


FIRST = frozenset({0})


@pytest.fixture
def short_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables that remember only their very last commit: recovery comes after many others have committed."""
    monkeypatch.setattr(progress, "LAST_COMMITS_KEPT", 1)
    for made in (progress_of, dead_progress_of):
        made.cache_clear()
    yield
    for made in (progress_of, dead_progress_of):
        made.cache_clear()


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


BESIDE = {
    "two-replays": Model(Rules(), 1, 1, replays=2),
    "replay-beside-drains": Model(Rules(), 2, 1, replays=1),
    "replay-and-rollback": Model(Rules(), 1, 1, replays=1, has_rollback=True),
    "rollback": Model(Rules(), 2, 1, has_rollback=True),
    "gate": Model(Rules(), 3, 1, gated=FIRST),
    "dead-letters": Model(Rules(), 2, 2, broken=FIRST),
    "dead-letters-and-replay": Model(Rules(), 1, 2, replays=1, broken=FIRST),
    "dead-letters-and-rollback": Model(Rules(), 2, 1, broken=FIRST, has_rollback=True),
}


@pytest.mark.parametrize("beside", BESIDE)
def test_what_else_commits_beside_drains(beside: str) -> None:
    """Replays, a rollback, an operator's word about a held batch, dead letters: the same holds, at any time.

    Of a batch that failed its gate nothing is in the table that nobody published; each dead letter is once in
    its own table, and no longer once its row was rolled back.
    """
    assert BESIDE[beside].explore() > 500


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


def publish_without_word(*args: Any, **facts: Any) -> Verdict:
    """Broken: a batch that failed its gate is adopted like any other."""
    verdict = decide(*args, **facts)
    return Verdict(Decision.ADOPT, "") if verdict.decision is Decision.HOLD else verdict


def forget_rollbacks(progress: Progress, batch: Batch) -> bool:
    """Broken: the offsets alone decide, though they have come round again."""
    return stands_at_starts(progress, replace(batch, epoch=progress.rollbacks))


BROKEN = {
    "sweep-without-fence": (Rules(decide=sweep_without_fence), "files that are gone"),
    "delete-when-unknown": (Rules(deletes_when_unknown=True), "files that are gone"),
    "commit-without-comparing-offsets": (Rules(may_commit=lambda *_: True), "doubled or lost"),
    "never-sweep": (Rules(decide=never_sweep), "stray files|stays unfinished"),
    "forget-what-was-swept": (Rules(is_settled=swept_is_forgotten), "stray files"),
}


BROKEN_BESIDE = {
    "replay-without-fence": (
        Model(Rules(may_replay=lambda *_: True), 1, 1, replays=2),
        "files that are gone",
    ),
    "forget-rollbacks": (
        Model(Rules(may_commit=forget_rollbacks), 3, 1, has_rollback=True),
        "files that are gone",
    ),
    "publish-without-word": (
        Model(Rules(decide=publish_without_word), 2, 1, gated=frozenset({0})),
        "was held and is there",
    ),
}


@pytest.mark.parametrize("broken", BROKEN_BESIDE)
def test_each_fence_is_needed(broken: str) -> None:
    """The same for what replays, rollbacks and gates add."""
    model, damage = BROKEN_BESIDE[broken]
    with pytest.raises(AssertionError, match=damage):
        model.explore()


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
        unnamed_files=lambda found, _named: tuple(found),
    )
    with pytest.raises(AssertionError, match="files that are gone"):
        Model(rules, 2, 3).explore()


@pytest.mark.usefixtures("short_memory")
def test_sweep_looks_at_names_itself() -> None:
    """Even when landing went unnoticed, a sweep that looks at names damages no table."""
    assert Model(Rules(decide=redo_what_landed), 2, 2).explore() > 1_000
    blind = replace(Rules(decide=redo_what_landed), unnamed_files=lambda found, _named: tuple(found))
    with pytest.raises(AssertionError, match="files that are gone"):
        Model(blind, 2, 2).explore()


@pytest.mark.usefixtures("short_memory")
def test_late_dead_letters_are_refused() -> None:
    """When the dead-letter table no longer remembers them, its offsets say that they came in long ago."""
    both = frozenset({0, 1})
    assert Model(Rules(), 2, 2, broken=both).explore() > 1_000
    with pytest.raises(AssertionError, match="doubled"):
        Model(Rules(is_stale=lambda *_: False), 2, 2, broken=both).explore()
