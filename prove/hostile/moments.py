"""Harm that begins at some moment of a run, and is over when the run has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from prove.hostile.case import History, describe_error, drain_one_batch, repair
from prove.lab.harm_proxy import HarmProxy
from prove.lab.patience import Patience
from prove.lab.pipeline_lab import configure
from prove.workload import BATCH, Workload
from spark_jobs.protocol.fail_points import NoFailPoints

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
    set_up: Callable[[Workload], AbstractContextManager[Callable[[], None]]]
    is_sat_out: bool = False
    codes: tuple[str, ...] = ()
    patience: Patience = field(default_factory=Patience)

    def __call__(self, workload: Workload) -> History:
        """Drain, meet it, put it right."""
        drain_one_batch(workload)
        workload.produce_batch()
        with self.set_up(workload) as begin:
            ended = self._run(workload, begin)
        return repair(ended, workload, was_read=bool(self.moment.point))

    def _run(self, workload: Workload, begin: Callable[[], None]) -> str:
        point = self.moment.point
        if point:
            slept = str(workload.folder / "slept")
            with workload.lab.stopped_at(point, once=slept, patience=self.patience) as drain:
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


@contextmanager
def harm_proxy(workload: Workload, address: str) -> Iterator[HarmProxy]:
    """The catalog's property ``address`` leads through the proxy while the block runs; requests meet harm."""
    with proxied(workload, address) as proxy:
        yield proxy
    assert proxy.harmed, "the proxy did not see a request"


@contextmanager
def proxied(workload: Workload, address: str) -> Iterator[HarmProxy]:
    """The catalog's property ``address`` leads through the proxy while the block runs."""
    direct = workload.lab.config.catalog.properties[address]
    with HarmProxy(direct) as proxy:
        configure(workload.lab, "catalog", {address: proxy.url})
        yield proxy
        configure(workload.lab, "catalog", {address: direct})
