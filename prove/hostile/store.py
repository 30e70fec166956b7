"""Hostile object stores: slow, broken or refusing while a run is at work, and then well again.

The catalog server reaches the store undisturbed: it is the job's own way to it that is harmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from prove.hostile.case import Case
from prove.hostile.moments import BEFORE, COMMITTING, GOES_ON, LANDED, WRITING, Meeting, harm_proxy
from prove.lab.harm_proxy import Harm
from prove.scenario import Scenario
from prove.workload import REST, Workload

GROUP = "a hostile object store"
REFUSED = ("log-store-refused", "storage-refused")
QUICK = frozenset({"store/denied/committing"})


def hostile_stores() -> Iterator[Scenario]:
    """Yield every case, in the report's order."""
    for harm in Harm:
        is_sat_out = harm is Harm.SLOW or harm.is_of_some
        for moment in (BEFORE, WRITING, COMMITTING, LANDED):
            case = Case(
                name=f"store/{harm.slug}/{moment.name}",
                title=f"{harm.value}, {moment.title}",
                promise=GOES_ON if is_sat_out else moment.promise,
                inject=Meeting(
                    moment, partial(_store, harm), is_sat_out, REFUSED if harm is Harm.DENIED else ()
                ),
                catalog=REST,
                may_read_again=(0,) if is_sat_out else moment.may_read_again,
            )
            yield case.scenario(GROUP, is_quick=case.name in QUICK)


@contextmanager
def _store(harm: Harm, workload: Workload) -> Iterator[Callable[[], None]]:
    with harm_proxy(workload, "s3.endpoint") as proxy:
        yield partial(proxy.suffer, harm)
