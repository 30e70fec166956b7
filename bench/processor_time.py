"""A process and everything below it, from Linux' ``/proc``: CPU time and memory."""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """``cpu_seconds`` are its own, ``ended_cpu_seconds`` those of children that have ended."""

    pid: int
    parent: int
    words: str
    cpu_seconds: float
    ended_cpu_seconds: float

    def pss_bytes(self) -> int:
        """Its memory, of pages that several processes share its part; 0 when it has just ended."""
        try:
            lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


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


def tree_cpu_seconds(root: int) -> float:
    """User and system time of ``root`` and its descendants, ended children included; nan off Linux."""
    if sys.platform != "linux":
        return math.nan
    return sum(process.cpu_seconds + process.ended_cpu_seconds for process in tree(root))
