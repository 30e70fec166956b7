"""One set of servers for all of a run's processes: the first process has them, pytest-xdist's workers ask it.

Servers die with the process that started them. A worker may end before the others, so none starts any.
"""

from __future__ import annotations

import secrets
import threading
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from prove.servers import Servers

ADDRESS = "sluice_servers"
KEY = "sluice_servers_key"
EXPOSED = ("folder", "kafka", "spark", "s3", "azurite", "gcs", "catalog", "registry")


class _Desk(BaseManager):
    """Where another process asks for the servers."""


class _Counter(BaseManager):
    """The other side of it."""


_Counter.register("servers")


def lend(servers: Servers) -> dict[str, object]:
    """Let other processes use the servers for as long as this one lives; return what they need to know."""
    _Desk.register("servers", callable=lambda: servers, exposed=EXPOSED)
    key = secrets.token_bytes(16)
    desk = _Desk(("127.0.0.1", 0), authkey=key).get_server()
    threading.Thread(target=desk.serve_forever, daemon=True).start()
    return {ADDRESS: desk.address, KEY: key}


def borrow(lent: Mapping[str, Any]) -> Servers:
    """Return the servers that the run's first process lends; they are started when they are asked for."""
    counter = _Counter(tuple(lent[ADDRESS]), authkey=lent[KEY])
    counter.connect()
    return cast("Servers", counter.servers())  # type: ignore[attr-defined]
