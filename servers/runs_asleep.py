"""``sluice-runs`` asleep: it keeps the socket, and becomes the process that forks runs for the next one.

It imports little, and takes 5 MiB.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from typing import NoReturn

from spark_jobs import WITHIN

AWAKE, ASLEEP = f"{WITHIN}orchestration.run_resident", f"{WITHIN}servers.runs_asleep"


def main(where: str) -> NoReturn:
    """Wait for a client, and leave it to the program that answers; ``where`` is a path or a descriptor."""
    listener = socket.socket(fileno=int(where)) if where.isdigit() else listen(where)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    select.select([listener], [], [])
    become(AWAKE, listener, "woken")


def listen(path: str) -> socket.socket:
    """Return a listening socket that only this user can reach."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def become(module: str, listener: socket.socket, *arguments: str) -> NoReturn:
    """Replace this program by another one with the same socket: who asks meanwhile waits."""
    listener.set_inheritable(True)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until it is handled again
    os.execv(sys.executable, [sys.executable, "-m", module, str(listener.fileno()), *arguments])  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
