"""A scenario: actions on a pipeline, Sluice's promise, and the findings.

The command, the report and the runner know scenarios only; what a scenario does is its own.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from prove.workload import CATALOG_NAMES, SQLITE, Testbed

LEFT = "left to orphan removal"


@dataclass(frozen=True, slots=True)
class Findings:
    """Events and audit results; the four counts must be 0.

    ``lost`` counts records that are not in the table as they are in Kafka, ``doubled`` those that are there
    more than once, ``unreadable`` what the metadata names and cannot be read or contradicts, ``stray`` data
    files that nothing names. ``left`` are files left to orphan removal, ``may_be_left`` how many of them the
    promise allows; ``read_again`` are records that Kafka was asked for twice, ``may_read_again`` what it
    allows of those. ``unkept`` says in words what else was promised and did not come true.
    ``recovery_seconds`` is the time of the runs that put it right.
    """

    happened: str
    lost: int = 0
    doubled: int = 0
    unreadable: int = 0
    stray: int = 0
    left: int = 0
    may_be_left: tuple[int, ...] = (0,)
    read_again: int = 0
    may_read_again: tuple[int, ...] = (0,)
    recovery_seconds: float = 0.0
    unkept: str = ""

    @property
    def is_kept(self) -> bool:
        """True if the promise was kept."""
        is_whole = not (self.lost or self.doubled or self.unreadable or self.stray or self.unkept)
        return is_whole and self.read_again in self.may_read_again and self.left in self.may_be_left


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case. ``needs`` are servers besides Kafka: ``postgres``, ``rest``, ``nessie``, ``spark``.

    ``title`` says in words what is done; ``run`` raises when the case could not be made, which is a failure,
    or ``LeftOut`` when this machine cannot make it. ``again`` are the command's options that run it again, if
    its name alone does not. A case that takes ``minutes`` is begun before all others; those ``is_alone``
    come after them, one at a time: they take a whole machine, or what they promise is a time.
    """

    name: str
    group: str
    title: str
    promise: str
    run: Callable[[Testbed], Findings]
    needs: frozenset[str] = frozenset()
    again: str = ""
    minutes: float = 0.0
    is_alone: bool = False


def scenario_on(
    name: str,
    title: str,
    promise: str,
    run: Callable[[Testbed], Findings],
    *,
    group: str,
    catalog: str = SQLITE,
    needs: AbstractSet[str] = frozenset(),
    is_alone: bool = False,
) -> Scenario:
    """Return the scenario; ``needs`` are servers besides the catalog's."""
    return Scenario(
        name=f"{catalog}/{name}",
        group=f"{group}, on {CATALOG_NAMES[catalog]}",
        title=title,
        promise=promise,
        run=run,
        needs=frozenset(needs | ({catalog} - {SQLITE})),
        is_alone=is_alone,
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario's result: findings, or the error in ``failure``, or ``left_out``."""

    name: str
    group: str
    title: str
    promise: str
    seconds: float
    findings: Findings | None = None
    failure: str = ""
    left_out: str = ""
    again: str = ""

    @property
    def is_kept(self) -> bool:
        """True if nothing contradicts the promise."""
        return bool(self.left_out) or (self.findings is not None and self.findings.is_kept)

    @property
    def verdict(self) -> str:
        """Return it in words, with remaining disorder even if the promise was kept."""
        if self.left_out or not self.is_kept:
            return "left out" if self.left_out else "BROKEN"
        return LEFT if self.findings and self.findings.left else "kept"
