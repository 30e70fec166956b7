"""Read-only server of the configured catalog over Iceberg's REST protocol.

An ASGI application. Each request opens a catalog object of its own: what it answers is what the catalog has
now. Nothing is answered but ``ENDPOINTS``, which clients are told. What is configured here reaches no client,
credentials least of all: it brings its own for the storage.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, unquote_plus

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from servers.browser_guard import Refusal
from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.connect import open_catalog
from spark_jobs.lake.catalog import catalog_error, released
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from starlette.types import Receive, Scope, Send

_CONFIG = "/v1/config"
_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES = f"{_NAMESPACE}/tables"
_TABLE = f"{_TABLES}/{{table}}"
_SEPARATOR = "\x1f"
_TYPES = {
    HTTPStatus.BAD_REQUEST: "BadRequestException",
    HTTPStatus.UNAUTHORIZED: "NotAuthorizedException",
    HTTPStatus.FORBIDDEN: "ForbiddenException",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailableException",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalServerError",
}
_NO_LOGIN = "This catalog has no login for a `credential`: a client sets `token` where tokens are configured."
_ASK = {"WWW-Authenticate": "Bearer"}

_log = logging.getLogger(__name__)


class _BadRequestError(Exception):
    """Invalid request parameters."""


def refused(refusal: Refusal) -> Response:
    """Return a refusal of the guard in the protocol's form; methods that write are refused as such."""
    known = refusal.status is HTTPStatus.UNAUTHORIZED
    is_login = known or refusal.status is HTTPStatus.UNSUPPORTED_MEDIA_TYPE  # what sends a form asks for one
    return _error(
        refusal.status if known else HTTPStatus.FORBIDDEN, _NO_LOGIN if is_login else refusal.reason
    )


class CatalogApp:
    """ASGI application; ``config`` names the catalog, whose secrets are read with each request."""

    def __init__(self, config: SluiceConfig) -> None:
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request in a thread."""
        if scope["type"] == "http":
            response = await run_in_threadpool(self._answer, Request(scope, receive))
            await response(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        path, names = _matched(request.scope)
        if (request.method, path) == ("GET", _CONFIG):
            return JSONResponse({"defaults": {}, "overrides": {}, "endpoints": list(ENDPOINTS)})
        answer = _ANSWERS.get((request.method, path))
        if answer is None:
            reason = "This catalog is served for reading: `endpoints` of /v1/config has all that is answered."
            return _error(HTTPStatus.FORBIDDEN, reason)
        try:
            with released(open_catalog(self._config)) as catalog:
                return answer(catalog, names, request)
        except Exception as error:  # noqa: BLE001  (a client is told in the protocol's form whatever happens)
            return _failure(error, _shown(names) or request.query_params.get("parent", ""))


def _failure(error: Exception, asked: str) -> Response:
    """Return the error response; the log has details that may name paths."""
    if isinstance(error, _BadRequestError):
        return _error(HTTPStatus.BAD_REQUEST, str(error))
    if isinstance(error, NoSuchTableError):
        return _error(HTTPStatus.NOT_FOUND, f"Table does not exist: {asked}", "NoSuchTableException")
    if isinstance(error, NoSuchNamespaceError):
        return _error(HTTPStatus.NOT_FOUND, f"Namespace does not exist: {asked}", "NoSuchNamespaceException")
    known = error if isinstance(error, SluiceError) else catalog_error(error, "could not be read")
    _log.warning("%s", scrub(str(known)))
    away = HTTPStatus.SERVICE_UNAVAILABLE if known.is_retryable else HTTPStatus.INTERNAL_SERVER_ERROR
    return _error(away, f"The catalog behind this one cannot be read ({known.code}): the log here has why.")


def _matched(scope: Scope) -> tuple[str, tuple[str, ...]]:
    """Return the protocol's path template and the names in it, or "" for an unknown path.

    The path as it was sent: a name may hold an encoded slash. Java writes a space as a plus there.
    """
    raw = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    match raw.split("/")[1:]:
        case ["v1", "config"]:
            return _CONFIG, ()
        case ["v1", "namespaces"]:
            return _NAMESPACES, ()
        case ["v1", "namespaces", namespace] if namespace:
            return _NAMESPACE, (unquote_plus(namespace),)
        case ["v1", "namespaces", namespace, "tables"]:
            return _TABLES, (unquote_plus(namespace),)
        case ["v1", "namespaces", namespace, "tables", table] if table:
            return _TABLE, (unquote_plus(namespace), unquote_plus(table))
    return "", ()


def _levels(written: str) -> tuple[str, ...]:
    levels = tuple(written.split(_SEPARATOR))
    if not all(levels):
        raise NoSuchNamespaceError(written)
    return levels


def _namespaces(catalog: Catalog, _: Sequence[str], request: Request) -> Response:
    # Clients encode the levels, and then the parameter once more.
    parent = unquote(request.query_params.get("parent", ""))
    above = _levels(parent) if parent else ()
    found = (each for each in catalog.list_namespaces(above) if len(each) == len(above) + 1)
    names, token = _page((each[-1] for each in found), request)
    return JSONResponse({"namespaces": [[*above, name] for name in names], "next-page-token": token})


def _namespace(catalog: Catalog, names: Sequence[str], _: Request) -> Response:
    levels = _levels(names[0])
    return JSONResponse({"namespace": levels, "properties": catalog.load_namespace_properties(levels)})


def _namespace_exists(catalog: Catalog, names: Sequence[str], _: Request) -> Response:
    if not catalog.namespace_exists(_levels(names[0])):
        raise NoSuchNamespaceError(names[0])
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _tables(catalog: Catalog, names: Sequence[str], request: Request) -> Response:
    levels = _levels(names[0])
    tables, token = _page((each[-1] for each in catalog.list_tables(levels)), request)
    identifiers = [{"namespace": levels, "name": name} for name in tables]
    return JSONResponse({"identifiers": identifiers, "next-page-token": token})


def _identifier(names: Sequence[str]) -> tuple[str, ...]:
    try:
        return (*_levels(names[0]), names[1])
    except NoSuchNamespaceError:
        raise NoSuchTableError(names[1]) from None


def _table(catalog: Catalog, names: Sequence[str], request: Request) -> Response:
    mode = request.query_params.get("snapshots", "all")
    if mode not in {"all", "refs"}:
        raise _BadRequestError("snapshots is all or refs")
    table = catalog.load_table(_identifier(names))
    metadata = table.metadata
    if mode == "refs":
        kept = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
        snapshots = [each for each in metadata.snapshots if each.snapshot_id in kept]
        metadata = metadata.model_copy(update={"snapshots": snapshots})
    # Text as PyIceberg writes it to metadata files: no value of it passes through another parser.
    where = json.dumps(table.metadata_location) if table.metadata_location else "null"
    body = f'{{"metadata-location":{where},"metadata":{metadata.model_dump_json()},"config":{{}}}}'
    return Response(body, media_type="application/json")


def _table_exists(catalog: Catalog, names: Sequence[str], _: Request) -> Response:
    if not catalog.table_exists(_identifier(names)):
        raise NoSuchTableError(names[1])
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _page(names: Any, request: Request) -> tuple[list[str], str | None]:
    """Return a page of names after the token, and the next token; all names without a token."""
    size, token = request.query_params.get("pageSize"), request.query_params.get("pageToken")
    if size is not None and not (size.isdecimal() and int(size)):
        raise _BadRequestError("pageSize is a whole number from 1 on")
    ordered = sorted(set(names))
    if token is None or size is None:
        return [name for name in ordered if name > (token or "")], None
    left = [name for name in ordered if name > token]
    page = left[: int(size)]
    return page, page[-1] if len(left) > len(page) else None


def _shown(names: Sequence[str]) -> str:
    return ".".join(names).replace(_SEPARATOR, ".")


def _error(status: HTTPStatus, message: str, kind: str = "") -> Response:
    body = {"error": {"message": message, "type": kind or _TYPES[status], "code": int(status)}}
    return JSONResponse(body, status, _ASK if status is HTTPStatus.UNAUTHORIZED else None)


_Answer = Callable[["Catalog", Sequence[str], Request], Response]
_ANSWERS: dict[tuple[str, str], _Answer] = {
    ("GET", _NAMESPACES): _namespaces,
    ("GET", _NAMESPACE): _namespace,
    ("HEAD", _NAMESPACE): _namespace_exists,
    ("GET", _TABLES): _tables,
    ("GET", _TABLE): _table,
    ("HEAD", _TABLE): _table_exists,
}
ENDPOINTS = (f"GET {_CONFIG}", *(f"{method} {path}" for method, path in _ANSWERS))
