"""Processes forked from a server with everything imported and nothing opened.

An import of pyspark and pyiceberg costs more than most of what such a process does.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

# The server takes its modules from whoever asks first, so everybody asks for the same.
_IMPORTED = ["prove.lab.warm", "prove.lab.drain_process"]


def fork(target: Callable[..., None], *arguments: Any) -> tuple[ForkServerProcess, Connection]:
    """Start ``target(sender, *arguments)`` in a process; return it and its connection.

    It dies with this process.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_IMPORTED)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(sender, *arguments), daemon=True)
    process.start()
    sender.close()
    return process, receiver
