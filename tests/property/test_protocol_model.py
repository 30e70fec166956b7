"""Every interleaving of a few runs, killed, paused or answered late at any step: the protocol holds.

And for each of its rules: without it, the same search finds a table that is damaged.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.protocol import progress
from spark_jobs.protocol.source import stands_at_starts
from spark_jobs.recovery.decide import Decision, Verdict, decide
from spark_jobs.txlog.entries import is_settled
from tests.support.protocol_dead_letters import dead_progress_of
from tests.support.protocol_model import Model, Rules
from tests.support.protocol_world import progress_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress
    from spark_jobs.txlog.entries import Attempt


FIRST = frozenset({0})


@pytest.fixture(autouse=True)
def no_collecting() -> Iterator[None]:
    """Worlds are in no circles: looking for some among so many takes a sixth of the time."""
    gc.disable()
    yield
    gc.enable()


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
        pytest.param(2, 2, frozenset({1}), id="two-batches"),
        pytest.param(2, 3, frozenset(), id="three-batches"),
    ],
)
def test_every_offset_once_whatever_happens(runs: int, last_offset: int, fileless: frozenset[int]) -> None:
    """Whatever is killed, paused or late: each offset once, no named file gone, no stray file left."""
    assert Model(Rules(), runs, last_offset, fileless).explore() > 1_000


def test_upkeep_may_move_main_at_any_time() -> None:
    """A compaction between load and swap costs a retry and nothing else."""
    assert Model(Rules(), 2, 2, has_upkeep=True).explore() > 1_000


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


SOURCES = {
    "anew": Model(Rules(), 1, 2, fork=0),
    "anew-and-shorter": Model(Rules(), 1, 2, fork=0, second_end=1),
    "moved": Model(Rules(), 1, 2, fork=1),
    "anew-beside-drains": Model(Rules(), 2, 1, fork=0),
    "anew-and-replay": Model(Rules(), 1, 1, replays=1, fork=0),
    "anew-and-dead-letters": Model(Rules(), 1, 1, broken=FIRST, fork=0),
}


@pytest.mark.parametrize("sources", SOURCES)
def test_a_second_source(sources: str) -> None:
    """A topic made anew at any time: no row is another topic's record, no batch read whole is thrown away.

    What the first topic's runs have in flight may wake before and after an operator accepts the second.
    """
    assert SOURCES[sources].explore() > 500


DROPS = {
    "drop": Model(Rules(), 1, 2, broken=FIRST, has_drop=True),
    "beside-drains": Model(Rules(), 2, 1, broken=FIRST, has_drop=True),
    "and-replay": Model(Rules(), 1, 1, replays=1, broken=FIRST, has_drop=True),
    "and-rollback": Model(Rules(), 1, 1, broken=FIRST, has_rollback=True, has_drop=True),
    "and-second-source": Model(Rules(), 1, 1, broken=FIRST, fork=0, has_drop=True),
}


@pytest.mark.parametrize("drops", DROPS)
def test_a_dropped_dead_letter_table(drops: str) -> None:
    """The dead-letter table dropped at any time, with its files or without, stops no run for ever.

    What is owed then comes in, once, and what a drop took is all that the balances count and nobody sees.
    """
    assert DROPS[drops].explore() > 100


def test_letters_that_come_back_late_to_a_table_made_anew() -> None:
    """A run pays once more for a table that was dropped; its own late commit then ends the debt.

    A recovery that had listed the batch before spares the letters, whose swap arrives after that.
    """
    late = replace(DROPS["beside-drains"], last_offset=2)
    assert late.explore() > 1_000
    with pytest.raises(AssertionError, match="dead-letter table names files that are gone"):
        replace(late, rules=Rules(may_come_late=lambda *_: False)).explore()


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


def whatever_the_source(decided: Callable[..., Any]) -> Callable[..., Any]:
    """Broken: the ids that a batch was read under are not compared with the table's."""

    def blind(progress: Progress, batch: Batch) -> bool:
        return bool(decided(progress, replace(batch, topic_id=progress.topic_id)))

    return blind


def adopt_whatever_the_source(attempt: Attempt, progress: Progress, **facts: Any) -> Verdict:
    """Broken: recovery adopts a batch of another topic."""
    batch = attempt.batch and replace(attempt.batch, topic_id=progress.topic_id)
    return decide(replace(attempt, batch=batch), progress, **facts)


def name_them_all(pending: PendingDeadLetters, *_: Any) -> tuple[str, ...]:
    """Broken: nobody asks whether the files were deleted with the table that was dropped."""
    return tuple(file.path for file in pending.files)


BLIND = Rules(decide=adopt_whatever_the_source, may_commit=whatever_the_source(stands_at_starts))
BROKEN_BESIDE |= {
    "land-whatever-the-source": (Model(BLIND, 1, 2, fork=1), "record of another topic"),
    "read-whatever-the-source": (
        Model(Rules(is_another=lambda *_: False), 1, 1, fork=0),
        "records of two topics",
    ),
    "accept-without-settling": (
        Model(Rules(settles_before_accept=False), 1, 1, fork=0),
        "read whole is thrown away",
    ),
    "name-purged-files": (
        Model(Rules(pending_files=name_them_all), 1, 2, broken=FIRST, has_drop=True),
        "dead-letter table names files that are gone",
    ),
    "forget-what-is-owed": (
        Model(Rules(pending_files=lambda *_: ()), 1, 1, broken=FIRST, has_drop=True),
        "a dead letter is lost",
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
def test_names_outlive_the_source() -> None:
    """What landed of the first source and was forgotten keeps its files when the second has been accepted."""
    assert SOURCES["moved"].explore() > 1_000
    blind = Rules(unnamed_files=lambda found, _named: tuple(found))
    with pytest.raises(AssertionError, match="files that are gone"):
        replace(SOURCES["anew-and-shorter"], rules=blind).explore()


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
