"""Harm that begins at a point of a run and ends with the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from prove.hostile.case import Case, History, describe_error, repair
from prove.lab.harm_proxy import Harm, HarmProxy
from prove.lab.patience import Patience
from prove.lab.pipeline_lab import configure
from prove.workload import BATCH, Workload
from spark_jobs.protocol.work import NoFailPoints

# Gives what lets the harm begin, and ends it.
SetUp = Callable[[Workload], AbstractContextManager[Callable[[], None]]]
OWN_PATIENCE = Patience()
GOES_ON = "it takes longer, and is done once"


@dataclass(frozen=True, slots=True)
class Moment:
    """Start of the harm: at a fail point of a drain, or before the drain.

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
    """A drain of one batch meets the harm of ``set_up``.

    ``is_sat_out``: the run must end well all the same. Without it the run ends with one of ``codes``, any if
    there are none.
    """

    moment: Moment
    set_up: SetUp
    is_sat_out: bool = False
    codes: tuple[str, ...] = ()
    patience: Patience = OWN_PATIENCE

    def __call__(self, workload: Workload) -> History:
        """Drain, meet the harm, repair."""
        workload.drain_and_produce()
        with self.set_up(workload) as begin:
            ended = self._run(workload, begin)
        return repair(ended, workload, was_read=bool(self.moment.point))

    def _run(self, workload: Workload, begin: Callable[[], None]) -> str:
        point = self.moment.point
        if point:
            with workload.lab.stopped_at(point, patience=self.patience) as drain:
                begin()
                drain.go_on()
                answer = drain.answer()
        else:
            begin()
            answer = workload.lab.start_with(NoFailPoints(), patience=self.patience).answer()
        if self.is_sat_out:
            assert answer.error is None, answer.message
            return "the run went on"
        return describe_error(answer, self.codes)


def cases_at(
    moments: Iterable[Moment],
    name: str,
    title: str,
    set_up: SetUp,
    *,
    catalog: str,
    is_sat_out: bool = False,
    codes: tuple[str, ...] = (),
    patience: Patience = OWN_PATIENCE,
) -> Iterator[Case]:
    """Yield a case for each moment, with a ``Meeting``."""
    for moment in moments:
        yield Case(
            f"{name}/{moment.name}",
            f"{title}, {moment.title}",
            GOES_ON if is_sat_out else moment.promise,
            Meeting(moment, set_up, is_sat_out, codes, patience),
            (catalog,),
            (0,) if is_sat_out else moment.may_read_again,
        )


@contextmanager
def harmed(address: str, harm: Harm, workload: Workload) -> Iterator[Callable[[], None]]:
    """Harm clients of the catalog's property ``address`` until the block ends."""
    with proxied(workload, address) as proxy:
        yield partial(proxy.suffer, harm)
    assert proxy.harmed, "the proxy did not see a request"


@contextmanager
def proxied(workload: Workload, address: str) -> Iterator[HarmProxy]:
    """Point the catalog's property ``address`` to the proxy while the block runs."""
    direct = workload.lab.config.catalog.properties[address]
    with HarmProxy(direct) as proxy:
        configure(workload.lab, "catalog", {address: proxy.url})
        yield proxy
        configure(workload.lab, "catalog", {address: direct})
