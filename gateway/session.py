"""A client's WebSocket connection: reads messages in order and sends answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway.gateway import Gateway, Sender, Stream
from gateway.messages import (
    MOST_TEXT,
    VERSIONS,
    Ack,
    Answer,
    Nack,
    Reason,
    RefusedError,
    Status,
    parse,
    read_batch,
    read_source,
    read_text,
    too_large,
)

if TYPE_CHECKING:
    from gateway.persisted import Persisted
    from gateway.tokens import Token

WINDOW = 16
_MOST_UNSENT = 1_000
_GOING_AWAY, _NO_MORE = 1001, 1008
_LAST_WORD_SECONDS = 5.0
_IN_KAFKA = {Status.OK, Status.BUFFERED, Status.DUPLICATE}


@dataclass(slots=True, eq=False)
class Session:
    """One connection; it belongs to the source that its ``connect`` names."""

    socket: WebSocket
    gateway: Gateway
    stream: Stream
    token: Token
    persisted: Persisted
    flush: Callable[[Stream], str]
    _unsent: asyncio.Queue[str] = field(init=False, default_factory=asyncio.Queue)
    _source: str = field(init=False, default="")
    _sender: Sender | None = field(init=False, default=None)
    _version: int = field(init=False, default=VERSIONS[0])
    _ending: asyncio.Task[None] | None = field(init=False, default=None)
    _capabilities: dict[str, str] = field(init=False, default_factory=dict)

    async def run(self) -> None:
        """Serve the connection until the client disconnects or is idle for too long."""
        sending = asyncio.create_task(self._send())
        try:
            while True:
                async with asyncio.timeout(self.gateway.settings.idle_seconds):
                    message = await self.socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await self._read(message.get("text"))
                if self._unsent.qsize() > _MOST_UNSENT:  # a client that reads no answers may not send
                    await self._unsent.join()
        except TimeoutError:
            with suppress(RuntimeError, WebSocketDisconnect):
                if self.socket.application_state is WebSocketState.CONNECTED:
                    await self.socket.close(_GOING_AWAY, "idle")
        finally:
            sending.cancel()
            self._leave()

    async def _send(self) -> None:
        while True:
            message = await self._unsent.get()
            with suppress(RuntimeError, WebSocketDisconnect):  # the client has disconnected
                await self.socket.send_text(message)
            self._unsent.task_done()

    def _fence(self) -> None:
        self._leave()
        self._nack(Nack(Reason.FENCED, "a newer connection has taken over this source"))
        self._end(Reason.FENCED)

    def _end(self, why: str) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._close(why))

    async def _close(self, why: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await self._unsent.join()
                await self.socket.close(_NO_MORE, why)

    async def _read(self, text: str | None) -> None:
        if self._ending is not None:
            return
        message: dict[str, Any] = {}
        try:
            message = _message(text)
            await self._do(message, len((text or "").encode()))
        except RefusedError as error:
            number = message.get("sequenceNumber")
            self._nack(error.nack(number if type(number) is int else None))

    async def _do(self, message: dict[str, Any], size: int) -> None:
        match message.get("type"):
            case "connect":
                await self._connect(message)
            case "heartbeat":
                self._queue({"type": "pong", "timestamp": _echo(message.get("timestamp")), **self._last()})
            case "flush_request":
                self._queue({**self._status(), "flush": self.flush(self.stream)})
            case "cdc_batch":
                self._take(message, size)
            case _:
                raise RefusedError("unknown message type", "type")

    async def _connect(self, message: dict[str, Any]) -> None:
        version = message.get("protocolVersion", VERSIONS[0])
        if type(version) is not int or version not in VERSIONS:
            supported = " and ".join(map(str, VERSIONS))
            raise RefusedError(f"supported versions are {supported}", "protocolVersion")
        source = read_source(message.get("sourceId"))
        self.token.refuse_other(source)
        name = read_text(message.get("sourceName"), "sourceName")
        refusal = await self.gateway.elsewhere(self.stream, source, is_secure=self.socket.url.is_secure)
        # With a wrong 0 here, a client's first batches would be treated as duplicates.
        if refusal := refusal or self.stream.intake_of(source).unknown(source):
            self._nack(refusal)
            return
        self._leave()
        self._source, self._version = source, version
        place, now = (self.stream.name, source), datetime.now(UTC).isoformat()
        if (earlier := self.gateway.senders.get(place)) is not None:
            earlier.fence()
        self._sender = self.gateway.senders[place] = Sender(name, self.token.name, now, self._fence)
        self._capabilities = self._granted(message.get("capabilities"))
        # Otherwise a reloaded page would send new events under numbers that are on the disk.
        self._queue({**self._status(), "lastAckSequence": self.stream.intake_of(source).accepted(source)})

    def _leave(self) -> None:
        place = self.stream.name, self._source
        if self._sender is not None and self.gateway.senders.get(place) is self._sender:
            del self.gateway.senders[place]
            self.persisted.leave(self.stream, self._source)

    def _granted(self, asked: Any) -> dict[str, str]:
        if type(asked) is dict:
            asked = [name for name in asked if asked[name]]
        wanted = [name for name in asked if _is_text(name)][:16] if type(asked) is list else []
        known = {"batching", "compression", *(["persisted"] if self.stream.pipelines else [])}
        return {name: "supported" if name in known else "unsupported" for name in wanted}

    def _take(self, message: dict[str, Any], size: int) -> None:
        most = self.gateway.settings.max_batch_bytes
        if size > most:
            raise too_large(f"the message has {size:,} bytes; the maximum is {most:,}")
        if not self._source:
            raise RefusedError("the first message must be `connect`", "type")
        batch = read_batch(message, self._source, self.stream.settings, size)
        self.gateway.offer(self.stream, batch, self.token, partial(self._answer, batch.id))

    def _answer(self, batch_id: str | None, answer: Answer) -> None:
        self._queue(answer.to_json(batch_id))
        if isinstance(answer, Nack) and answer.is_taken:  # what is behind it may fit by chance
            self._end(answer.reason)
        is_wanted = self._ending is None and self._capabilities.get("persisted") == "supported"
        if is_wanted and isinstance(answer, Ack) and answer.status in _IN_KAFKA:
            persisted = partial(self._persisted, batch_id, replace(answer, status=Status.PERSISTED))
            if not self.persisted.watch(self.stream, self._source, persisted):
                self.gateway.metrics.count_unwatched(self.stream.name)

    def _persisted(self, batch_id: str | None, answer: Ack) -> None:
        self._queue(answer.to_json(batch_id))
        if self._sender is not None:
            self._sender.persisted = max(self._sender.persisted, answer.sequence)

    def _nack(self, nack: Nack) -> None:
        self.gateway.metrics.count_answer(self.stream.name, nack)
        self._queue(nack.to_json())

    def _status(self) -> dict[str, Any]:
        return {
            "type": "status",
            **self.gateway.status(),
            **self._last(),
            "capabilities": self._capabilities,
            "window": WINDOW,
            "maxBatchBytes": self.gateway.settings.max_batch_bytes,
            "protocolVersion": self._version,
        }

    def _last(self) -> dict[str, int]:
        """Return the source's last number in Kafka, and in version 2 also the last accepted one."""
        if not self._source:
            return {}
        progress = self.stream.intake_of(self._source).progress(self._source)
        if progress and self._version == 1:
            return {"lastAckSequence": progress["lastOkSequence"]}
        return progress

    def _queue(self, message: dict[str, Any]) -> None:
        self._unsent.put_nowait(orjson.dumps(message).decode())


def _message(text: str | None) -> dict[str, Any]:
    if text is None:
        raise RefusedError("binary frames are not supported: send text frames")
    message = parse(text)
    if type(message) is not dict:
        raise RefusedError("not a JSON object")
    return message


def _echo(value: Any) -> Any:
    """Return a client's value for a response, None if it is not a number or short text."""
    return value if type(value) in {int, float} or _is_text(value) else None


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_TEXT and value.isprintable()
