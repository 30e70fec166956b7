"""A client's connection over WebSocket: its messages in their order, answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
from anyio.to_thread import run_sync
from starlette.websockets import WebSocketDisconnect, WebSocketState

from spark_jobs.gateway.admission import Admission
from spark_jobs.gateway.messages import (
    MOST_TEXT,
    Batch,
    RefusedError,
    parse,
    read_batch,
    read_source,
    read_text,
)
from spark_jobs.gateway.words import PROTOCOL_VERSION, Ack, Answer, Nack, Reason, Status, slot_of

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from spark_jobs.gateway.gateway import Gateway, Stream
    from spark_jobs.gateway.persisted import Persisted

WINDOW = 16
_MOST_UNSENT = 1_000
_GOING_AWAY = 1001


class Session:
    """One connection; it is of the source that its ``connect`` names."""

    def __init__(
        self,
        socket: WebSocket,
        gateway: Gateway,
        stream: Stream,
        admission: Admission,
        *,
        persisted: Persisted,
        flush: Callable[[Stream], str],
    ) -> None:
        self._socket = socket
        self._gateway = gateway
        self._stream = stream
        self._admission = admission
        self._persisted = persisted
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._unsent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._source = ""
        self._capabilities: dict[str, str] = {}

    async def run(self) -> None:
        """Go on until the client leaves, or says nothing for long."""
        sending = asyncio.create_task(self._send())
        try:
            while True:
                async with asyncio.timeout(self._gateway.settings.idle_seconds):
                    message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._read(message.get("text"))
                if self._unsent.qsize() > _MOST_UNSENT:  # who takes no answers may send nothing
                    await self._unsent.join()
        except TimeoutError:
            await self._close(_GOING_AWAY, "idle")
        finally:
            sending.cancel()

    async def _close(self, code: int, reason: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            if self._socket.application_state is WebSocketState.CONNECTED:
                await self._socket.close(code, reason)

    async def _send(self) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):
            while True:
                await self._socket.send_text(orjson.dumps(await self._unsent.get()).decode())
                self._unsent.task_done()

    async def _read(self, text: str | None) -> None:
        sequence = None
        try:
            if text is None:
                raise RefusedError("a frame of bytes, where text is wanted")  # noqa: TRY301
            message = parse(text)
            if type(message) is not dict:
                raise RefusedError("no object")  # noqa: TRY301
            number = message.get("sequenceNumber")
            sequence = number if type(number) is int else None
            size = len(text.encode(errors="replace"))
            most = self._gateway.settings.max_batch_bytes
            if size > most:
                told = f"{size:,} bytes, where {most:,} are the most"
                raise RefusedError(told, is_too_large=True)  # noqa: TRY301
            await self._do(message, size)
        except RefusedError as error:
            self._nack(error.nack(sequence))

    async def _do(self, message: dict[str, Any], size: int) -> None:
        match message.get("type"):
            case "connect":
                await self._connect(message)
            case "heartbeat":
                self._say({"type": "pong", "timestamp": _shown(message.get("timestamp")), **self._last()})
            case "flush_request":
                self._say({**self._status(), "flush": self._flush(self._stream)})
            case "cdc_batch":
                if not self._source:
                    raise RefusedError("connect comes first", "type")
                batch = read_batch(message, self._source, self._stream.settings, size)
                self._take(batch)
            case _:
                raise RefusedError("no message of the protocol", "type")

    async def _connect(self, message: dict[str, Any]) -> None:
        if message.get("protocolVersion", PROTOCOL_VERSION) != PROTOCOL_VERSION:
            raise RefusedError(f"{PROTOCOL_VERSION} is spoken here", "protocolVersion")
        source = read_source(message.get("sourceId"))
        read_text(message.get("sourceName"), "sourceName")
        asked = message.get("capabilities")
        elsewhere = await run_sync(self._gateway.elsewhere, self._stream, source)
        if elsewhere is not None:
            self._nack(elsewhere)
            return
        self._source = source
        self._capabilities = self._granted(asked if type(asked) in {dict, list} else {})
        self._say(self._status())

    def _granted(self, asked: Any) -> dict[str, str]:
        wanted = [name for name in asked if type(name) is str][:16]
        if type(asked) is dict:
            wanted = [name for name in wanted if asked[name]]
        known = {"batching", "compression", *(["persisted"] if self._stream.pipeline is not None else [])}
        return {name: "supported" if name in known else "unsupported" for name in wanted}

    def _take(self, batch: Batch) -> None:
        if (wait_ms := self._admission.wait_ms(len(batch.events), batch.size_bytes)) > 0:
            self._nack(
                Nack(Reason.RATE_LIMITED, "too much at once", batch.sequence, retry_after_ms=wait_ms), batch
            )
            return

        def listener(answer: Answer) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer, answer, batch.id)

        answer = self._gateway.offer(self._stream, batch, listener)
        if answer is not None:
            self._answer(answer, batch.id)

    def _answer(self, answer: Answer, batch_id: str | None) -> None:
        self._say(answer.to_json(batch_id))
        is_wanted = self._capabilities.get("persisted") == "supported"
        if is_wanted and isinstance(answer, Ack) and answer.status in {Status.OK, Status.BUFFERED}:
            persisted = Ack(answer.sequence, Status.PERSISTED, answer.processed, answer.skipped)

            def tell() -> None:
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._answer, persisted, batch_id)

            self._persisted.tell(self._stream, tell)

    def _nack(self, nack: Nack, batch: Batch | None = None) -> None:
        self._gateway.metrics.told(self._stream.name, nack, None)
        self._say(nack.to_json(None if batch is None else batch.id))

    def _status(self) -> dict[str, Any]:
        look = self._gateway.look()
        return {
            "type": "status",
            "state": look["state"],
            "buffer": look["buffer"],
            "connectedSources": look["connectedSources"],
            **self._last(),
            "capabilities": self._capabilities,
            "window": WINDOW,
            "maxBatchBytes": self._gateway.settings.max_batch_bytes,
            "protocolVersion": PROTOCOL_VERSION,
        }

    def _last(self) -> dict[str, int]:
        if not self._source:
            return {}
        return {"lastAckSequence": self._stream.lanes[slot_of(self._source)].last(self._source)}

    def _say(self, message: dict[str, Any]) -> None:
        self._unsent.put_nowait(message)


def _shown(value: Any) -> Any:
    """Return what a client may have said back."""
    return value if type(value) in {int, float} or (type(value) is str and len(value) <= MOST_TEXT) else None
