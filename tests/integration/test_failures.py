"""A failed run is counted by its code, and told to a webhook once until the work goes well again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import configure, make_lab
from resources.sluice import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.config.secrets import remember
from spark_jobs.notices.failures import read_failures
from spark_jobs.protocol.errors import CommitConflict, ConfigError, RetryableError, SluiceError
from tests.support.webhook_receiver import Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab

SECRET = "hunter2-hunter2"
AWAY = RetryableError("the broker does not answer", code="broker-away", hint="Wait.")
GONE = ConfigError("no such topic", code="no-such-topic", hint="Make it.")
SECOND = CommitConflict("another run came first", code="offsets-moved", hint="Nothing is lost.")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with receiving() as started:
        yield started


@pytest.fixture
def lab(tmp_path: Path, receiver: Receiver) -> Lab:
    """A pipeline whose trouble is told."""
    lab = make_lab(tmp_path, bootstrap="localhost:1", topic="t", spark_remote="sc://localhost:1")
    configure(lab, "pipelines/orders", {"notify": {"trouble": receiver.url}})
    return lab


def work(lab: Lab, error: SluiceError | None, *, kind: str = "drain") -> None:
    """Some work that ends so."""
    opened = open_connections(load_config(lab.path), "orders", kind=kind, actor="test", run_id="r")
    if error is None:
        with opened:
            return
    with pytest.raises(type(error)), opened:
        raise error


def test_trouble_is_told_once_a_code_until_the_work_goes_well(lab: Lab, receiver: Receiver) -> None:
    """Each failure counts; upkeep that goes well says nothing of drains; who came second has no trouble."""
    for error in (AWAY, AWAY, GONE, SECOND):
        work(lab, error)
    work(lab, None, kind="upkeep")
    work(lab, GONE)
    assert [body["code"] for body in receiver.taken] == ["broker-away", "no-such-topic"]
    assert [body["needs_person"] for body in receiver.taken] == [False, True]
    told = receiver.taken[1]
    assert (told["kind"], told["pipeline"], told["work"]) == ("trouble", "orders", "drain")
    assert told["text"] == "drain of orders failed: no such topic (pipeline orders) [no-such-topic] Make it."
    work(lab, None)
    work(lab, GONE)
    assert len(receiver.taken) == 3
    counts = read_failures(str(lab.config.home), "orders").counts
    assert counts == {"broker-away": 2, "no-such-topic": 3, "offsets-moved": 1}


def test_work_that_goes_well_says_nothing_of_other_work(lab: Lab, receiver: Receiver) -> None:
    """What a drain was told of stays told when upkeep, which had failed too, goes well again."""
    for kind in ("drain", "upkeep"):
        work(lab, GONE, kind=kind)
    work(lab, None, kind="upkeep")
    work(lab, GONE)
    assert [body["work"] for body in receiver.taken] == ["drain", "upkeep"]
    work(lab, GONE, kind="upkeep")
    assert [body["work"] for body in receiver.taken] == ["drain", "upkeep", "upkeep"]


def test_what_a_receiver_does_not_take_the_next_failure_tells(lab: Lab, receiver: Receiver) -> None:
    """The work's own error is what its caller gets."""
    receiver.status = 503
    work(lab, AWAY)
    assert receiver.taken == []
    receiver.status = 200
    work(lab, AWAY)
    assert [body["code"] for body in receiver.taken] == ["broker-away"]


def test_a_failure_without_a_name_is_counted_told_and_kept(lab: Lab, receiver: Receiver) -> None:
    """A driver's error is one to `status`, the webhook and the metrics as any, without its secrets."""
    remember(SECRET)
    opened = open_connections(load_config(lab.path), "orders", kind="drain", actor="test", run_id="r")
    with pytest.raises(KeyError), opened:
        raise KeyError(f"no such key in postgres://me:{SECRET}@db")
    found = read_failures(str(lab.config.home), "orders")
    assert found.counts == {"unexpected": 1}
    assert found.last["drain"].message == "unexpected KeyError: 'no such key in postgres://me:***@db'"
    assert found.last["drain"].hint.startswith("Run ./sluice drain orders --debug to see where")
    assert [(body["code"], body["needs_person"]) for body in receiver.taken] == [("unexpected", True)]
    assert SECRET not in str(receiver.taken) + repr(found)
    work(lab, None)
    assert read_failures(str(lab.config.home), "orders").last == {}


def test_a_run_that_is_ended_has_not_failed(lab: Lab, receiver: Receiver) -> None:
    """Ctrl-C and a termination are somebody's wish."""
    opened = open_connections(load_config(lab.path), "orders", kind="drain", actor="test", run_id="r")
    with pytest.raises(KeyboardInterrupt), opened:
        raise KeyboardInterrupt
    assert (receiver.taken, read_failures(str(lab.config.home), "orders").counts) == ([], {})


def test_who_only_looks_fails_nothing(lab: Lab, receiver: Receiver) -> None:
    """An audit that cannot be made is on the screen of the person who asked."""
    work(lab, AWAY, kind="audit")
    assert (receiver.taken, read_failures(str(lab.config.home), "orders").counts) == ([], {})


def test_the_last_failure_that_needs_a_person_is_kept_until_the_work_goes_well(lab: Lab) -> None:
    """An outage after it does not hide it, and a later run of other work does not end it."""

    def last() -> list[str]:
        return [failure.message for failure in read_failures(str(lab.config.home), "orders").last.values()]

    for error in (GONE, AWAY, SECOND):
        work(lab, error)
    work(lab, None, kind="upkeep")
    assert last() == ["no such topic"]
    work(lab, None)
    assert last() == []
