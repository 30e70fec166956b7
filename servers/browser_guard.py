"""Protection of Sluice's listeners against requests from foreign web pages.

A page of any site may send requests to 127.0.0.1. It cannot choose the Origin that goes with them, nor send
JSON without asking first, nor name a Host other than its own (OWASP: cross-site request forgery, DNS
rebinding). So a request must name a Host that this server goes by; a GET may read only; all else must be
JSON, and from one of its own pages or from none at all, as programs send it. Where there are tokens, each
request brings one; a browser brings it along with requests of other sites' pages too.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from graphql import GraphQLError, OperationDefinitionNode, OperationType, parse
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.websockets import WebSocketClose

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY_VIOLATION = 1008  # RFC 6455, section 7.4.1
_ASK = {"WWW-Authenticate": 'Basic realm="Sluice", charset="UTF-8"'}  # browsers ask their users then


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason for refusing a request, in one line for the client."""

    status: HTTPStatus
    reason: str


def _in_a_line(refusal: Refusal) -> Response:
    headers = _ASK if refusal.status is HTTPStatus.UNAUTHORIZED else None
    return PlainTextResponse(f"{refusal.reason}\n", refusal.status, headers)


class BrowserGuard:
    """ASGI middleware that passes only allowed HTTP and WebSocket requests.

    ``hosts`` are the names that it goes by beside the address a request comes in at, ``origins`` those whose
    pages may ask beside the origin of that name. A proxy in front of it hands on the Host it was asked under,
    with its port, or the origin is named. Without ``tokens`` nobody is asked for one. ``refused`` words a
    refusal as the clients of the application read it. ``kinds`` are the content types that may be sent, none
    of them one that a page may send without asking first.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        tokens: Collection[str] = (),
        refused: Callable[[Refusal], Response] = _in_a_line,
        *,
        kinds: Collection[str] = ("application/json",),
    ) -> None:
        self._app = app
        self._kinds = frozenset(kinds)
        self._refused = refused
        self._origins = frozenset(origins)
        self._tokens = tuple(tokens)
        self._hosts = frozenset(host.lower() if _address(host) else _name_of(host) for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application."""
        refusal = self.refusal(scope) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, _unframed(send))
        elif scope["type"] == "websocket":
            await WebSocketClose(_POLICY_VIOLATION, refusal.reason)(scope, receive, send)
        else:
            await self._refused(refusal)(scope, receive, send)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return the reason to refuse the request, or None."""
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        if len(named) != 1 or not self._is_ours(named[0], scope):
            reason = "Nothing here goes by this Host. If a proxy sent it, sluice.yaml names it under hosts."
            return Refusal(HTTPStatus.FORBIDDEN, reason)
        if self._tokens and not any(map(self._is_known, _tokens_of(headers))):
            return Refusal(HTTPStatus.UNAUTHORIZED, "A token is required: as bearer token or as password.")
        if scope["type"] == "http" and scope["method"] in _READS:
            if _has_mutation(scope):
                return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "A GET reads only: send a mutation by POST.")
            return None
        return self._refusal_of_change(scope, headers, named[0])

    def _refusal_of_change(self, scope: Scope, headers: Headers, host: str) -> Refusal | None:
        if not all(self._may_ask(origin, host) for origin in headers.getlist("origin")):
            return Refusal(HTTPStatus.FORBIDDEN, "This was asked by a page of another origin.")
        if scope["type"] == "http" and not self._is_of_a_kind(headers):
            return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send it as application/json.")
        return None

    def _is_known(self, token: bytes) -> bool:
        return any(hmac.compare_digest(token, each.encode()) for each in self._tokens)

    def _is_of_a_kind(self, headers: Headers) -> bool:
        kinds = headers.getlist("content-type")
        return len(kinds) == 1 and kinds[0].partition(";")[0].strip().lower() in self._kinds

    def _may_ask(self, origin: str, host: str) -> bool:
        return origin.partition("://")[2] == host or origin.lower() in self._origins

    def _is_ours(self, host: str, scope: Scope) -> bool:
        name = _name_of(host)
        arrived_at = _address(scope["server"][0] if scope.get("server") else "")
        if name is None:
            return False
        is_local = arrived_at is not None and arrived_at.is_loopback and name == "localhost"
        return is_local or name in self._hosts or (arrived_at is not None and _address(name) == arrived_at)


def _unframed(send: Send) -> Send:
    """Forbid other sites to embed pages of this one (clickjacking)."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-frame-options", b"DENY")]
        await send(message)

    return sent


def _name_of(host: str) -> str | None:
    """Return the name in a Host header in lower case, without brackets and port; None if invalid."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """Return the written IP address (IPv4 also if mapped to IPv6), or None for a name."""
    try:
        address = ip_address(name)
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _tokens_of(headers: Headers) -> Iterator[bytes]:
    """Yield the request's tokens: a bearer token, or the password of any user name."""
    for written in headers.getlist("authorization"):
        scheme, _, value = written.partition(" ")
        if scheme.lower() == "bearer":
            yield value.strip().encode("latin-1")
        elif scheme.lower() == "basic":
            try:
                yield base64.b64decode(value, validate=True).partition(b":")[2]
            except ValueError:
                continue


def _has_mutation(scope: Scope) -> bool:
    """True if a query in the URL would change something; unparsable ones are never executed."""
    for query in parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("query", []):
        try:
            operations = parse(query).definitions
        except GraphQLError:
            continue
        if any(
            isinstance(each, OperationDefinitionNode) and each.operation is not OperationType.QUERY
            for each in operations
        ):
            return True
    return False
