"""The gateway's addresses: batches by WebSocket and by POST, its health, and its metrics."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from spark_jobs.gateway.admission import PROTOCOL, Admission, admission, secret_of
from spark_jobs.gateway.messages import (
    Batch,
    RefusedError,
    parse,
    parse_lines,
    read_events,
    read_sequence,
    read_source,
    read_text,
)
from spark_jobs.gateway.session import Session
from spark_jobs.gateway.words import Ack, Answer, Nack, Reason, Status

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.websockets import WebSocket

    from spark_jobs.gateway.gateway import Gateway, Stream
    from spark_jobs.gateway.persisted import Persisted
    from spark_jobs.gateway.tokens import Token, Tokens

NDJSON = "application/x-ndjson"
CLOUD_EVENTS = "application/cloudevents-batch+json"
KINDS = ("application/json", NDJSON, CLOUD_EVENTS)
_ANSWER_SECONDS = 60.0
_DIGITS = re.compile(r"[0-9]{1,16}")
_STATUSES = {
    Reason.INVALID_FORMAT: HTTPStatus.BAD_REQUEST,
    Reason.INVALID_SEQUENCE: HTTPStatus.CONFLICT,
    Reason.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Reason.BUFFER_FULL: HTTPStatus.TOO_MANY_REQUESTS,
    Reason.INTERNAL_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.SHUTTING_DOWN: HTTPStatus.SERVICE_UNAVAILABLE,
}


class _TurnedAwayError(Exception):
    def __init__(self, status: HTTPStatus, nack: Nack) -> None:
        super().__init__(nack.message)
        self.status = status
        self.nack = nack


class GatewayApi:
    """The application; ``flush`` starts a run of a stream's pipeline and says what became of that."""

    def __init__(
        self,
        gateway: Gateway,
        tokens: Tokens,
        persisted: Persisted,
        flush: Callable[[Stream], str],
        origins: Collection[str] = (),
    ) -> None:
        self._gateway = gateway
        self._tokens = tokens
        self._persisted = persisted
        self._flush = flush
        self._origins = list(origins)

    def app(self) -> Starlette:
        """Return it for a server."""
        headers = ["authorization", "content-type", "idempotency-key"]
        cors = Middleware(
            CORSMiddleware, allow_origins=self._origins, allow_methods=["POST"], allow_headers=headers
        )
        return Starlette(
            routes=[
                WebSocketRoute("/v1/streams/{stream}", self._socket),
                Route("/v1/streams/{stream}", self._post, methods=["POST"]),
                Route("/v1/health", self._health),
                Route("/metrics", self._metrics),
            ],
            middleware=[cors] if self._origins else [],
            lifespan=self._until_told,
        )

    async def finish(self) -> None:
        """Take no new batches and have those under way answered; connections are open still."""
        await run_sync(self._gateway.close)
        await asyncio.sleep(0.2)  # what was answered is sent

    @asynccontextmanager
    async def _until_told(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        await run_sync(self._gateway.close)

    async def _socket(self, socket: WebSocket) -> None:
        try:
            stream, token = self._admitted(socket)
            _refuse_full(token)
        except _TurnedAwayError as refused:
            await socket.send_denial_response(_error(refused.nack, refused.status))
            return
        held = self._held(socket, token)
        offered = socket.scope.get("subprotocols", [])
        self._gateway.connected += 1
        try:
            with held.connected(), suppress(OSError):
                await socket.accept(PROTOCOL if PROTOCOL in offered else None)
                session = Session(
                    socket, self._gateway, stream, held, persisted=self._persisted, flush=self._flush
                )
                await session.run()
        finally:
            self._gateway.connected -= 1

    async def _post(self, request: Request) -> Response:
        batch: Batch | None = None
        try:
            stream, token = self._admitted(request)
            body = await self._body(request)
            batch = _read(request, body, stream)
            elsewhere = await run_sync(self._gateway.elsewhere, stream, batch.source)
            if elsewhere is not None:
                return _error(elsewhere, HTTPStatus.CONFLICT, batch.id)
            wait_ms = self._held(request, token).wait_ms(len(batch.events), batch.size_bytes)
            if wait_ms > 0:
                nack = Nack(Reason.RATE_LIMITED, "too much at once", batch.sequence, retry_after_ms=wait_ms)
                return self._told(stream, nack, batch)
            return _answered(await self._offered(stream, batch), batch)
        except RefusedError as error:
            return _error(error.nack(), batch_id=None if batch is None else batch.id)
        except _TurnedAwayError as refused:
            return _error(refused.nack, refused.status)

    async def _offered(self, stream: Stream, batch: Batch) -> Answer:
        loop, answered = asyncio.get_running_loop(), asyncio.Event()
        answers: list[Answer] = []

        def keep(answer: Answer) -> None:
            answers.append(answer)
            answered.set()

        def listener(answer: Answer) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(keep, answer)

        answer = self._gateway.offer(stream, batch, listener)
        if answer is not None:
            return answer
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await answered.wait()
        except TimeoutError:
            return Nack(Reason.INTERNAL_ERROR, "it takes long: send it again", batch.sequence)
        return answers[0]

    def _told(self, stream: Stream, nack: Nack, batch: Batch) -> Response:
        self._gateway.metrics.told(stream.name, nack, None)
        return _answered(nack, batch)

    def _admitted(self, connection: HTTPConnection) -> tuple[Stream, Token]:
        token = self._tokens.find(secret_of(connection.headers))
        if token is None:
            nack = Nack(Reason.INVALID_FORMAT, "a token is wanted: as bearer, or as a password")
            raise _TurnedAwayError(HTTPStatus.UNAUTHORIZED, nack)
        name = connection.path_params["stream"]
        stream = self._gateway.streams.get(name)
        if stream is None or not token.may_send(name):
            nack = Nack(Reason.INVALID_FORMAT, "no such stream, or not for this token", field="stream")
            raise _TurnedAwayError(HTTPStatus.NOT_FOUND, nack)
        return stream, token

    def _held(self, connection: HTTPConnection, token: Token) -> Admission:
        address = connection.client.host if connection.client else ""
        return admission(token, self._gateway.settings.rates.connection, self._gateway.addresses, address)

    async def _body(self, request: Request) -> bytes:
        most, body = self._gateway.settings.max_batch_bytes, bytearray()
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise RefusedError(f"more than {most:,} bytes", is_too_large=True)
        return bytes(body)

    async def _health(self, _request: Request) -> Response:
        look = await run_sync(self._gateway.look)
        return JSONResponse(look, HTTPStatus.OK if look["isReady"] else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _metrics(self, request: Request) -> Response:
        if self._tokens.find(secret_of(request.headers)) is None:
            return Response("A token is wanted.\n", HTTPStatus.UNAUTHORIZED)
        return Response(await run_sync(self._gateway.metrics.text), media_type=CONTENT_TYPE_LATEST)


def _refuse_full(token: Token) -> None:
    if token.is_full:
        nack = Nack(Reason.RATE_LIMITED, "the token has its connections")
        raise _TurnedAwayError(HTTPStatus.TOO_MANY_REQUESTS, nack)


def _read(request: Request, body: bytes, stream: Stream) -> Batch:
    """Return the batch of a request: an object with the words, or events with the rest in the address."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    read = parse_lines(body) if kind == NDJSON else parse(body)
    told: dict[str, Any] = read if type(read) is dict else {"events": read}
    if kind == CLOUD_EVENTS and type(read) is list:
        told = {"events": [_of_cloud_event(each) for each in read]}
        first = read[0] if read and type(read[0]) is dict else {}
        told["sourceId"] = first.get("source")
    asked = request.query_params
    number = asked.get("sequenceNumber", told.get("sequenceNumber"))
    sequence = read_sequence(int(number) if type(number) is str and _DIGITS.fullmatch(number) else number)
    source = read_source(asked.get("sourceId") or told.get("sourceId"))
    key = asked.get("batchId") or request.headers.get("idempotency-key") or told.get("batchId")
    events = told.get("events")
    if type(events) is not list:
        raise RefusedError("no array", "events")
    records = read_events(events, stream.settings, sequence)
    return Batch(source, records, len(body), sequence, read_text(key, "batchId"))


def _of_cloud_event(event: Any) -> Any:
    """Return an event of CloudEvents as one of ours: its id, its data, and its subject as key."""
    if type(event) is not dict:
        return event
    return {
        "id": event.get("id"),
        "key": event.get("subject"),
        "value": event.get("data"),
        "timestamp": event.get("time"),
        "operation": event.get("operation"),
    }


def _answered(answer: Answer, batch: Batch) -> Response:
    if isinstance(answer, Nack):
        return _error(answer, batch_id=batch.id)
    is_fallback = answer.status is Status.FALLBACK
    body = {**_counts(batch.id, answer), "status": answer.status, "sequenceNumber": answer.sequence}
    return JSONResponse(body, HTTPStatus.ACCEPTED if is_fallback else HTTPStatus.OK)


def _counts(batch_id: str | None, ack: Ack | None) -> dict[str, Any]:
    return {
        "batchId": batch_id,
        "success": ack is not None,
        "eventsProcessed": 0 if ack is None else ack.processed,
        "duplicatesSkipped": 0 if ack is None else ack.skipped,
        "usedFallback": ack is not None and ack.status is Status.FALLBACK,
        "error": None,
    }


def _error(nack: Nack, status: HTTPStatus | None = None, batch_id: str | None = None) -> Response:
    own = HTTPStatus.REQUEST_ENTITY_TOO_LARGE if nack.is_too_large else _STATUSES[nack.reason]
    status = status or own
    headers = {}
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        headers["Retry-After"] = str(math.ceil((nack.again_ms or 1000) / 1000))
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    told = nack.to_json()
    error = {name: told[name] for name in ("reason", "shouldRetry", "details")}
    return JSONResponse({**_counts(batch_id, None), "error": error}, status, headers=headers)
