"""CPU time of a call, and of processes with their descendants and memory, from Linux' ``/proc``."""

from __future__ import annotations

import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_CALLS = 10
_MANY_CALLS = 20


def least_cpu_ms(call: Callable[[], object]) -> float:
    """Return the minimum over ten calls after a warm-up: other threads work too."""
    call()
    taken = []
    for _ in range(_CALLS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken) * 1e3


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """``cpu_seconds`` are its own, ``ended_cpu_seconds`` those of ended children."""

    pid: int
    parent: int
    words: str
    cpu_seconds: float
    ended_cpu_seconds: float

    def pss_bytes(self) -> int:
        """Return its memory with its share of shared pages; 0 after its end."""
        return self._memory("Pss:")

    def private_bytes(self) -> int:
        """Return its unshared memory; 0 after its end."""
        return self._memory("Private_Clean:", "Private_Dirty:")

    def _memory(self, *names: str) -> int:
        try:
            lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith(names)) * 1024


def tree(root: int) -> Iterator[LiveProcess]:
    """Yield ``root`` and its descendants, parents first; nothing off Linux."""
    children: defaultdict[int, list[LiveProcess]] = defaultdict(list)
    found: dict[int, LiveProcess] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
        pid, a_second = int(folder.name), os.sysconf("SC_CLK_TCK")
        found[pid] = LiveProcess(pid, int(fields[1]), words, own / a_second, ended / a_second)
        children[int(fields[1])].append(found[pid])
    waiting = [found[root]] if root in found else []
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children[process.pid]


class TreeClock:
    """User and system time of processes and descendants from now on; nan off Linux.

    By process: Spark's workers are nobody's ended children. What one took is gone with it, and a sum of those
    that live could run backwards.
    """

    def __init__(self, *roots: int) -> None:
        self._roots = roots
        self._before = _by_process(roots)

    def seconds(self) -> float:
        """Return the time since; an ended process's time after the last look is lost."""
        if sys.platform != "linux":
            return math.nan
        now = _by_process(self._roots)
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in now.items())


def mean_cpu_ms(call: Callable[[], object], *roots: int) -> float:
    """Return the mean over twenty calls after a warm-up, for these processes and their descendants."""
    call()
    clock = TreeClock(*roots)
    for _ in range(_MANY_CALLS):
        call()
    return clock.seconds() / _MANY_CALLS * 1e3


def _by_process(roots: Iterable[int]) -> dict[int, float]:
    return {each.pid: each.cpu_seconds + each.ended_cpu_seconds for root in roots for each in tree(root)}
