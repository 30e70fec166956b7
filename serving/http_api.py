"""The query service over HTTP: queries, streamed answers, the state of each pipeline, and a page.

An answer that fails after its first rows closes its connection, so that it does not look complete.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from serving.service import Answered, QueryService, Question, RecordKey
from spark_jobs.config.secrets import scrub
from spark_jobs.hot.tail_status import State, TailStatus
from spark_jobs.hot.watermark import parse_watermark
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError, error_to_json, fault
from spark_jobs.query.answer_parts import arrow_parts, csv_parts, json_parts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from spark_jobs.config.settings import PipelineConfig


# Requests, and errors as responses.


MOST_BODY_BYTES = 1_000_000
_STATUS_BY_CODE = {
    "not-served": HTTPStatus.NOT_FOUND,
    "no-table-yet": HTTPStatus.NOT_FOUND,
    "too-many-queries": HTTPStatus.TOO_MANY_REQUESTS,
    "query-timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "not-yet": HTTPStatus.GATEWAY_TIMEOUT,
}
_Partition = Annotated[int, Field(ge=0, lt=1 << 31)]
_Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
_Given = TypeVar("_Given")
_Read = TypeVar("_Read")


class Format(StrEnum):
    """The format of an answer."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class QueryRequest(_Request):
    """The body of ``POST /v1/query``."""

    sql: str
    pipeline: str | None = None
    format: Format = Format.JSON
    after: dict[_Partition, _Whole] = Field(default_factory=dict)
    at: str | None = None
    timeout_ms: Annotated[_Whole, Field(gt=0)] | None = None

    def question(self) -> Question:
        """Return the question. Raises ``ConfigError``: ``unreadable-watermark``."""
        seconds = None if self.timeout_ms is None else self.timeout_ms / 1000
        at = None if self.at is None else parse_watermark(self.at)
        if at is not None and self.after:
            raise fault("unreadable-request.both")
        return Question(self.sql, self.after, at, seconds)


class LookupRequest(_Request):
    """The parameters of ``GET /v1/pipelines/{pipeline}/lookup``."""

    key: str
    format: Format = Format.JSON


def checked(read: Callable[[_Given], _Read], given: _Given) -> _Read:
    """Read a body or query parameters. Raises ``ConfigError``: ``unreadable-request``."""
    try:
        return read(given)
    except ValidationError as error:
        every = (f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors())
        raise fault("unreadable-request", why="; ".join(every)) from None


def status_of(error: SluiceError) -> HTTPStatus:
    """Return the error's status, which separates wrong requests from retryable errors."""
    if error.code in _STATUS_BY_CODE:
        return _STATUS_BY_CODE[error.code]
    if isinstance(error, ConfigError):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, RetryableError) else HTTPStatus.CONFLICT


def error_body(error: SluiceError) -> dict[str, Any]:
    """Return the error as JSON, without secrets."""
    fields = error_to_json(error)
    return {
        **fields,
        "message": scrub(error.message),
        "hint": scrub(error.hint),
        "see": f"docs/reference/errors.md#{error.code}",
    }


# The routes, and the streaming of answers.


WATERMARK_HEADER = "Sluice-Watermark"
LAKE_HEADER = "Sluice-Lake"
_ASK = {"WWW-Authenticate": 'Basic realm="Sluice", charset="UTF-8"'}
_NOT_KEPT = {"Cache-Control": "no-store"}
_TYPES = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8",
    Format.ARROW: "application/vnd.apache.arrow.stream",
}
_PART_BYTES = 64 * 1024
_SEND_SECONDS = 5.0  # the time for a client to read the rest of an answer after the query's time is over
# Each waits for Kafka or a slot for some seconds at most; answers are sent by other threads.
_ASKING_THREADS = 100


class HttpApi:
    """The application; ``lake`` identifies this catalog and broker, so that clients notice another one."""

    def __init__(self, service: QueryService, lake: str) -> None:
        self._service = service
        self._lake = lake
        self._threads = anyio.CapacityLimiter(_ASKING_THREADS)

    def app(self) -> Starlette:
        """Return the application for a server."""
        return Starlette(
            lifespan=self._until_shutdown,
            routes=[
                Route("/", _page),
                Route("/v1/query", self._query, methods=["POST"]),
                Route("/v1/pipelines", self._pipelines),
                Route("/v1/pipelines/{pipeline}/lookup", self._lookup),
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
            ],
            exception_handlers={
                SluiceError: _refused,
                HTTPException: _no_such_address,
                Exception: _unexpected,
            },
        )

    @asynccontextmanager
    async def _until_shutdown(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        await run_sync(self._service.close)

    async def _query(self, request: Request) -> Response:
        self._check_lake(request)
        asked = checked(QueryRequest.model_validate_json, await _body(request))
        pipeline = self._service.pipeline(asked.pipeline)
        return await self._respond(request, pipeline, asked.question(), asked.format)

    async def _lookup(self, request: Request) -> Response:
        self._check_lake(request)
        asked = checked(LookupRequest.model_validate, dict(request.query_params))
        pipeline = self._service.pipeline(request.path_params["pipeline"])
        return await self._respond(request, pipeline, Question(RecordKey(asked.key)), asked.format)

    async def _respond(
        self, request: Request, pipeline: PipelineConfig, question: Question, written: Format
    ) -> Response:
        stack, left = ExitStack(), threading.Event()
        async with _watched(request.receive, left):
            asked = self._service.ask(pipeline, replace(question, is_left=left.is_set))
            answered: Answered = await run_sync(stack.enter_context, asked, limiter=self._threads)
        watermark = str(answered.watermark)
        headers = {WATERMARK_HEADER: watermark, "Content-Type": _TYPES[written], **_NOT_KEPT}
        parts = _parts(answered, written, watermark)
        return _AnswerResponse(stack, parts, left, self._service.query_seconds, headers)

    async def _pipelines(self, request: Request) -> Response:
        self._check_lake(request)
        statuses = await run_sync(self._service.tails.statuses)
        shown = [_state_to_json(status, self._service.pipelines[status.pipeline]) for status in statuses]
        return JSONResponse({"pipelines": shown}, headers=_NOT_KEPT)

    def _check_lake(self, request: Request) -> None:
        """Reject a request whose header names another catalog or broker; commands send it."""
        if request.headers.get(LAKE_HEADER, self._lake) == self._lake:
            return
        raise fault("not-served.other-lake")

    async def _readyz(self, _request: Request) -> Response:
        statuses = await run_sync(self._service.tails.statuses)
        waiting = [each.pipeline for each in statuses if not (each.is_ready or each.state is State.FAILED)]
        status = HTTPStatus.SERVICE_UNAVAILABLE if waiting else HTTPStatus.OK
        return JSONResponse({"waiting_for": waiting}, status)

    async def _healthz(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _metrics(self, _request: Request) -> Response:
        return Response(await run_sync(self._service.metrics.text), media_type=CONTENT_TYPE_LATEST)


class _AnswerResponse(StreamingResponse):
    """Sends the parts and then closes the query, also if the client disconnects or reads nothing."""

    def __init__(
        self,
        stack: ExitStack,
        parts: Iterator[Any],
        left: threading.Event,
        seconds: float,
        headers: dict[str, str],
    ) -> None:
        self._sent = _within(stack, parts)
        super().__init__(self._sent, headers=headers)
        self._stack, self._left = stack, left
        self._seconds = seconds + _SEND_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with _watched(receive, self._left):
                with anyio.move_on_after(self._seconds):
                    await super().__call__(scope, receive, send)
        except RetryableError:
            if not self._left.is_set():  # else the client has disconnected
                raise
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._close)

    def _close(self) -> None:
        self._sent.close()  # ends a query whose rows were not all read
        self._stack.close()  # ends a query that was never read


def _within(stack: ExitStack, parts: Iterator[Any]) -> Generator[bytes]:
    """Combine small parts into larger ones; an error closes the query."""
    with stack:
        gathered = bytearray()
        for part in parts:
            gathered += part if isinstance(part, bytes) else part.encode()
            if len(gathered) >= _PART_BYTES:
                yield bytes(gathered)
                gathered.clear()
        yield bytes(gathered)


def _parts(answered: Answered, written: Format, watermark: str) -> Iterator[Any]:
    match written:
        case Format.JSON:
            return json_parts(answered.answer, watermark)
        case Format.CSV:
            return csv_parts(answered.answer)
        case Format.ARROW:
            return arrow_parts(answered.answer)


@asynccontextmanager
async def _watched(receive: Receive, left: threading.Event) -> AsyncIterator[None]:
    """Set the event when the client disconnects."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watching.cancel()


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise fault("unreadable-request", why=f"the body has more than {MOST_BODY_BYTES:,} bytes")
    return bytes(body)


def _state_to_json(status: TailStatus, pipeline: PipelineConfig) -> dict[str, Any]:
    marked = status.watermark
    return {
        "pipeline": status.pipeline,
        "topic": pipeline.topic,
        "table": pipeline.table,
        "state": status.state.value,
        "watermark": None if marked is None else str(marked),
        "ends": {} if marked is None else {str(p): end for p, end in sorted(marked.ends.items())},
        "hot_rows": status.hot_rows,
        "hot_bytes": status.size_bytes,
        "age_ms": status.age_ms,
        "is_ready": status.is_ready,
        "reason": None if status.reason is None else error_body(status.reason),
    }


async def _refused(_request: Request, error: Any) -> Response:
    return JSONResponse(error_body(error), status_of(error), headers=_NOT_KEPT)


async def _no_such_address(_request: Request, error: Any) -> Response:
    return refusal_body(error.status_code, error.detail, error.headers)


async def _unexpected(_request: Request, error: Exception) -> Response:
    message = scrub(f"unexpected {type(error).__name__}: {error}")
    return refusal_body(HTTPStatus.INTERNAL_SERVER_ERROR, message)


def refusal_body(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an HTTP error in the form of Sluice's errors; 401 makes browsers ask for a token."""
    body = {
        "code": f"http-{int(status)}",
        "message": reason,
        "hint": "See docs/reference/serving.md#over-http.",
    }
    asks = _ASK if status == HTTPStatus.UNAUTHORIZED else {}
    return JSONResponse(body, int(status), headers={**_NOT_KEPT, **asks, **(headers or {})})


# The page at ``/``: one file, which runs only its own script and sends requests only to this server.


_FILE = Path(__file__).with_name("page.html")
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


async def _page(_request: Request) -> Response:
    """Return the page with a content security policy that allows its parts by their hashes."""
    text, policy = _load_page()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


@cache
def _load_page() -> tuple[str, str]:
    text = _FILE.read_text(encoding="utf-8")
    allowed = " ".join(f"{kind}-src {_hash(inline)};" for kind, inline in _INLINE.findall(text))
    rest = "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return text, f"default-src 'none'; {allowed} {rest}"


def _hash(inline: str) -> str:
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return f"'sha256-{digest}'"
