"""CPU time of a process and everything below it, from Linux' ``/proc``."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path


def tree_cpu_seconds(root: int) -> float:
    """User and system time of ``root`` and its descendants, ended children included; nan off Linux."""
    if sys.platform != "linux":
        return math.nan
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid, parent = int(folder.name), int(fields[1])
        ticks[pid] = sum(map(int, fields[11:15]))
        children.setdefault(parent, []).append(pid)
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")
