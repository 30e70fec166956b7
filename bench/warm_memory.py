"""Free memory that the host of a virtual machine took back costs 2 µs a KiB when it is next used.

Whose memory that is depends on what ran before, and it can be more than all that is measured: drains that are
compared with each other begin with memory that is there.
"""

from __future__ import annotations

import subprocess
import sys

WARM_BYTES = 3 << 30  # of what two tasks and their files take several times as much: the kernel may choose
_TOUCH = f"import numpy; numpy.empty({WARM_BYTES}, 'u1')[::4096] = 1"


def warm_memory() -> None:
    """Use and free some memory in another process; what this one starts next finds it there."""
    subprocess.run([sys.executable, "-c", _TOUCH], check=True)
