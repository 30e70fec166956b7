"""A server of queries on a real port, over a lake or over Kafka, without a process of its own."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn

from servers.browser_guard import BrowserGuard
from serving.http_api import HttpApi, refusal_body
from spark_jobs.hot.prefix import HeldRecords, Prefix, load_seam
from spark_jobs.hot.tail_status import State, TailStatus
from spark_jobs.hot.watermark import Epoch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from serving.service import QueryService
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections

LAKE_ID = "of this test"


@dataclass
class Drained:
    """Pipelines that have everything in the lake already: what is pinned is the table as it is."""

    pipelines: dict[str, PipelineConfig]
    connections: Connections
    states: dict[str, TailStatus] = field(default_factory=dict)
    pinned: list[dict[str, Any]] = field(default_factory=list)

    def pin(self, pipeline: str, **how: Any) -> Prefix:
        self.pinned.append(how)
        if reason := self.states[pipeline].reason if pipeline in self.states else None:
            raise reason
        seam = load_seam(self.pipelines[pipeline], self.connections)
        epoch = Epoch(str(seam.table.metadata.table_uuid), "t", seam.progress.generation, 0)
        held = HeldRecords.at(seam, epoch, seam.progress.next_offsets)
        return held.prefix(age_ms=0, at=how.get("at"))

    def close(self) -> None:
        pass

    def statuses(self) -> list[TailStatus]:
        live = {name: TailStatus(name, State.LIVE, is_ready=True) for name in self.pipelines}
        return list((live | self.states).values())


@contextmanager
def answering(service: QueryService, lake: str = LAKE_ID, **guard: Any) -> Iterator[httpx.Client]:
    """A client of the service's real server."""
    app = BrowserGuard(
        HttpApi(service, lake).app(), refused=lambda why: refusal_body(why.status, why.reason), **guard
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
