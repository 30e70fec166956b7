"""A connection whose request does not begin in time is closed: else a few clients hold all descriptors."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class _InTime(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """Between requests uvicorn closes by itself who says nothing, until there is a first byte."""

    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait_for_head()

    def _wait_for_head(self) -> None:
        has_begun = self.cycle is not None and not self.cycle.response_complete
        if has_begun and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not has_begun and self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._close)

    def _close(self) -> None:
        if self.transport.get_protocol() is self:  # else it is a WebSocket's by now
            self.transport.close()


def heads_within(seconds: float) -> type[asyncio.Protocol]:
    """Return what uvicorn takes as ``http``: requests' headers end within so many seconds."""
    return type("InTime", (_InTime,), {"head_seconds": seconds})
