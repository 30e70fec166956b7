"""Harm that begins at some moment of a run, and is over when the run has ended."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from prove.hostile.case import Told, drained, named, put_right
from prove.lab.harm_proxy import HarmProxy
from prove.lab.new_lab import configure
from prove.lab.patience import Patience
from prove.stage import BATCH
from spark_jobs.protocol.fail_points import NoFailPoints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from prove.stage import Play

GOES_ON = "it takes longer, and is done once"


@dataclass(frozen=True, slots=True)
class Moment:
    """When harm begins: at a fail point of a drain, or before the drain.

    ``promise`` is for harm that the run cannot sit out.
    """

    name: str
    title: str
    promise: str
    point: str = ""
    may_read_again: tuple[int, ...] = (0,)


_ADOPTED = "a named error; then the files are committed, nothing is read again"
BEFORE = Moment("before", "before a run", "a named error; then the range is read for the first time")
WRITING = Moment(
    "writing",
    "before the first file",
    "a named error; then the range is read again",
    "drain.after-flush-start",
    (BATCH,),
)
# For what is not needed to write files.
WRITING_ON = replace(WRITING, promise=_ADOPTED, may_read_again=(0,))
COMMITTING = Moment("committing", "between files and commit", _ADOPTED, "drain.after-parquet-written")
LANDED = Moment(
    "landed",
    "between the commit and the dead letters'",
    "a named error; then the commit is found, nothing is read again",
    "drain.after-commit",
)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A drain of one batch meets harm: ``arranged`` gives what lets it begin, and ends it.

    ``is_sat_out``: the run must end well all the same. Without it the run ends with one of ``codes``, any if
    there are none.
    """

    moment: Moment
    arranged: Callable[[Play], AbstractContextManager[Callable[[], None]]]
    is_sat_out: bool = False
    codes: tuple[str, ...] = ()
    patience: Patience = field(default_factory=Patience)

    def __call__(self, play: Play) -> Told:
        """Drain, meet it, put it right."""
        drained(play)
        play.produce_batch()
        with self.arranged(play) as begin:
            ended = self._run(play, begin)
        return put_right(ended, play, was_read=bool(self.moment.point))

    def _run(self, play: Play, begin: Callable[[], None]) -> str:
        point = self.moment.point
        if point:
            slept = str(play.folder / "slept")
            with play.lab.stopped_at(point, once=slept, patience=self.patience) as drain:
                begin()
                drain.go_on()
                answer = drain.answer()
        else:
            begin()
            answer = play.lab.start_struck(NoFailPoints(), patience=self.patience).answer()
        if self.is_sat_out:
            assert answer.error is None, answer.message
            return "the run went on"
        return named(answer, self.codes)


@contextmanager
def harm_proxy(play: Play, address: str) -> Iterator[HarmProxy]:
    """The catalog's property ``address`` leads through the proxy while the block runs; requests meet harm."""
    with proxied(play, address) as proxy:
        yield proxy
    assert proxy.harmed, "the proxy did not see a request"


@contextmanager
def proxied(play: Play, address: str) -> Iterator[HarmProxy]:
    """The catalog's property ``address`` leads through the proxy while the block runs."""
    direct = play.lab.config.catalog.properties[address]
    with HarmProxy(direct) as proxy:
        configure(play.lab, "catalog", {address: proxy.url})
        yield proxy
        configure(play.lab, "catalog", {address: direct})
