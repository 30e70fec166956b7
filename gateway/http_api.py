"""The gateway's routes: batches by WebSocket and by POST, health, sources and metrics."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute

from gateway.messages import (
    Ack,
    Answer,
    Nack,
    Reason,
    RefusedError,
    Status,
    parse,
    parse_lines,
    read_batch,
    read_source,
    read_text,
    too_large,
)
from gateway.session import Session
from gateway.tokens import PROTOCOLS, Token, Tokens, secret_of

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from gateway.gateway import Gateway, Stream
    from gateway.persisted import Persisted

NDJSON = "application/x-ndjson"
KINDS = ("application/json", NDJSON)
_ANSWER_SECONDS = 60.0
_WORDS = ("sourceId", "batchId", "sequenceNumber")
_DIGITS = re.compile(r"[0-9]{1,16}")
_STATUSES = {
    Reason.INVALID_FORMAT: HTTPStatus.BAD_REQUEST,
    Reason.INVALID_SEQUENCE: HTTPStatus.CONFLICT,
    Reason.RATE_LIMITED: HTTPStatus.TOO_MANY_REQUESTS,
    Reason.BUFFER_FULL: HTTPStatus.TOO_MANY_REQUESTS,
    Reason.INTERNAL_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
    Reason.SHUTTING_DOWN: HTTPStatus.SERVICE_UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class GatewayApi:
    """The application; ``flush`` starts a run of a stream's pipelines and returns the outcome."""

    gateway: Gateway
    tokens: Tokens
    persisted: Persisted
    flush: Callable[[Stream], str]
    origins: Collection[str] = ()

    def app(self) -> Starlette:
        """Return the application for a server."""
        headers = ["authorization", "content-type", "idempotency-key"]
        cors = Middleware(
            CORSMiddleware, allow_origins=self.origins, allow_methods=["POST"], allow_headers=headers
        )
        return Starlette(
            routes=[
                WebSocketRoute("/v1/streams/{stream}", self._socket),
                Route("/v1/streams/{stream}", self._post, methods=["POST"]),
                Route("/v1/health", self._health),
                Route("/v1/sources", self._sources),
                Route("/metrics", self._metrics),
            ],
            middleware=[cors] if self.origins else [],
        )

    async def finish(self) -> None:
        """Accept no new batches and answer the accepted ones; connections stay open."""
        await run_sync(self.gateway.stop)
        await asyncio.sleep(0.2)  # what was answered is sent

    async def _socket(self, socket: WebSocket) -> None:
        try:
            stream, token = self._admitted(socket)
            token.connect()
        except RefusedError as error:
            await socket.send_denial_response(_response(error.nack(), status=error.status))
            return
        offered = socket.scope.get("subprotocols", [])
        self.gateway.connected += 1
        try:
            with suppress(OSError):
                await socket.accept(next((each for each in PROTOCOLS if each in offered), None))
                await Session(socket, self.gateway, stream, token, self.persisted, self.flush).run()
        finally:
            token.connections -= 1
            self.gateway.connected -= 1

    async def _post(self, request: Request) -> Response:
        stream, message = None, dict[str, Any]()
        try:
            stream, token = self._admitted(request)
            body = await self._body(request)
            message = _message(request, body)
            batch = read_batch(message, read_source(message.get("sourceId")), stream.settings, len(body))
            token.refuse_other(batch.source)
        except RefusedError as error:
            if stream is not None:
                self.gateway.metrics.count_answer(stream.name, error.nack())
            return _response(error.nack(), _batch_id(message), error.status)
        is_secure = request.url.is_secure
        if (elsewhere := await self.gateway.elsewhere(stream, batch.source, is_secure=is_secure)) is not None:
            return _response(elsewhere, batch.id, HTTPStatus.CONFLICT)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def listener(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.gateway.offer(stream, batch, token, listener)
        try:
            answer = await asyncio.wait_for(answered, _ANSWER_SECONDS)
        except TimeoutError:
            answer = Nack(Reason.INTERNAL_ERROR, "the batch was not answered in time: send it again")
        return _response(answer, batch.id)

    def _admitted(self, connection: HTTPConnection) -> tuple[Stream, Token]:
        token = self.tokens.find(secret_of(connection.headers))
        if token is None:
            message = "a bearer token is required, and the one sent is missing or unknown"
            raise RefusedError(message, None, HTTPStatus.UNAUTHORIZED)
        name = connection.path_params["stream"]
        stream = self.gateway.streams.get(name)
        if stream is None or not token.may_send(name):
            message = "the stream does not exist, or the token does not allow it"
            raise RefusedError(message, "stream", HTTPStatus.NOT_FOUND)
        return stream, token

    async def _body(self, request: Request) -> bytes:
        most, body = self.gateway.settings.max_batch_bytes, bytearray()
        try:
            async with asyncio.timeout(self.gateway.settings.idle_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_large(f"the body has more than {most:,} bytes")
        except (TimeoutError, ClientDisconnect):
            message = "the body did not arrive completely in time"
            raise RefusedError(message, None, HTTPStatus.REQUEST_TIMEOUT) from None
        return bytes(body)

    async def _health(self, _request: Request) -> Response:
        look = await run_sync(self.gateway.look)
        return JSONResponse(look, HTTPStatus.OK if look["isReady"] else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _sources(self, request: Request) -> Response:
        token = self.tokens.find(secret_of(request.headers))
        if token is None or not token.may_look:
            status = HTTPStatus.UNAUTHORIZED if token is None else HTTPStatus.FORBIDDEN
            return refusal(status, "a token with the right `look` is required")
        return JSONResponse(
            {"sources": [each for each in self.gateway.sources() if token.may_send(each["stream"])]}
        )

    async def _metrics(self, request: Request) -> Response:
        if self.tokens.find(secret_of(request.headers)) is None:
            return Response("A token is required.\n", HTTPStatus.UNAUTHORIZED)
        return Response(await run_sync(self.gateway.metrics.text), media_type=CONTENT_TYPE_LATEST)


def refusal(status: HTTPStatus, message: str) -> Response:
    """Return the response to a request that does not belong to a stream."""
    return _response(Nack(Reason.INVALID_FORMAT, message), status=status)


def _message(request: Request, body: bytes) -> dict[str, Any]:
    """Return the message of a request: an object, or events with the other fields in the address."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    read = parse_lines(body) if kind == NDJSON else parse(body)
    message: dict[str, Any] = read if type(read) is dict else {"events": read}
    if key := request.headers.get("idempotency-key"):
        message["batchId"] = key
    message |= {name: value for name, value in request.query_params.items() if name in _WORDS}
    number = message.get("sequenceNumber")
    if type(number) is str and _DIGITS.fullmatch(number):
        message["sequenceNumber"] = int(number)
    return message


def _batch_id(message: dict[str, Any]) -> str | None:
    """Return the id of a rejected batch, if it is a valid text."""
    with suppress(RefusedError):
        return read_text(message.get("batchId"), "batchId")
    return None


def _response(answer: Answer, batch_id: str | None = None, status: HTTPStatus | None = None) -> Response:
    """Return the response for an answer; ``status`` overrides that of the answer."""
    fields, is_ack = answer.to_json(), isinstance(answer, Ack)
    body = {
        "batchId": batch_id,
        "success": is_ack,
        "eventsProcessed": 0,
        "duplicatesSkipped": 0,
        "usedFallback": fields.get("status") == Status.FALLBACK,
        "error": None,
    }
    del fields["type"]
    if isinstance(answer, Ack):
        is_there = answer.status is not Status.FALLBACK
        return JSONResponse({**body, **fields}, HTTPStatus.OK if is_there else HTTPStatus.ACCEPTED)
    fields.pop("sequenceNumber", None)
    status, headers = status or _STATUSES[answer.reason], {}
    if status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}:
        headers["Retry-After"] = str(math.ceil((answer.again_ms or 1000) / 1000))
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({**body, "error": fields}, status, headers=headers)
