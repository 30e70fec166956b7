"""Proxies before a catalog without logins: one wants tokens, one signatures, one vends credentials for S3."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, urlsplit

from prove.lab.http_proxy import Client, HttpProxy, Request, Response

CLIENT_ID, CLIENT_SECRET = "drains", "client-secret"
_JSON = (("Content-Type", "application/json"),)
_TOKENS = "/v1/oauth/tokens"


class _Guard(HttpProxy):
    """Passes on what it does not answer itself."""

    def serve(self, request: Request, client: Client) -> None:
        client.answer(self.own_answer(request) or self.pass_on(request))

    @abstractmethod
    def own_answer(self, request: Request) -> Response | None:
        """Return an answer in the server's place, or None."""


class TokenGuard(_Guard):
    """Gives tokens to a client by its credentials (OAuth 2), and refuses whoever has none or an ended one.

    ``given`` counts tokens; ``refused`` requests by their method and path. Like most providers it does not
    exchange tokens. ``lasts_seconds`` is announced; a token only ends by ``end_tokens``.
    """

    def __init__(self, upstream: str, *, lasts_seconds: int = 3600) -> None:
        super().__init__(upstream)
        self._lasts_seconds = lasts_seconds
        self.given = 0
        self.refused: list[tuple[str, str]] = []
        self._valid: set[str] = set()

    def end_tokens(self) -> None:
        """End every token given until now."""
        self._valid.clear()

    def own_answer(self, request: Request) -> Response | None:
        if request.path == _TOKENS:
            return self._token(parse_qs(request.body.decode()))
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in self._valid:
            return None
        self.refused.append((request.method, request.path))
        return _catalog_error(401, "NotAuthorizedException", "the token is missing or has ended")

    def _token(self, form: dict[str, list[str]]) -> Response:
        known = {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        if {name: form.get(name, [""])[0] for name in known} != known:
            return _answer(401, {"error": "invalid_client", "error_description": "unknown client or secret"})
        self.given += 1
        token = uuid.uuid4().hex
        self._valid.add(token)
        return _answer(
            200, {"access_token": token, "token_type": "bearer", "expires_in": self._lasts_seconds}
        )


class SignatureGuard(_Guard):
    """Verifies AWS's signature version 4 of every request, as AWS documents it; ``verified`` counts."""

    def __init__(self, upstream: str, *, key: str, secret: str, region: str, service: str) -> None:
        super().__init__(upstream)
        self._key, self._secret = key, secret
        self._region, self._service = region, service
        self.verified = 0

    def own_answer(self, request: Request) -> Response | None:
        why = self._fault(request)
        if why:
            return _answer(403, {"message": why})
        self.verified += 1
        return None

    def _fault(self, request: Request) -> str:
        scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            return "Missing Authentication Token"
        said = dict(part.strip().split("=", 1) for part in rest.split(","))
        stamp = request.headers["x-amz-date"]
        scope = f"{stamp[:8]}/{self._region}/{self._service}/aws4_request"
        if said["Credential"] != f"{self._key}/{scope}":
            return "The security token included in the request is invalid."
        if abs(datetime.strptime(stamp, "%Y%m%dT%H%M%S%z") - datetime.now(UTC)) > timedelta(minutes=5):
            return "Signature expired"
        if said["Signature"] != self._signature(request, said["SignedHeaders"], stamp, scope):
            return "The request signature we calculated does not match the signature you provided."
        return ""

    def _signature(self, request: Request, signed: str, stamp: str, scope: str) -> str:
        parts = urlsplit(request.path)
        query = sorted((quote(k, safe=""), quote(v, safe="")) for k, v in parse_qsl(parts.query, True))
        body = hashlib.sha256(request.body).hexdigest()
        headers = "".join(f"{name}:{' '.join(request.headers[name].split())}\n" for name in signed.split(";"))
        canonical = "\n".join(
            (
                request.method,
                quote(parts.path, safe="/~"),  # each segment is encoded twice
                "&".join(f"{k}={v}" for k, v in query),
                headers,
                signed,
                body,
            )
        )
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self._secret}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()


class VendingProxy(_Guard):
    """Vends credentials of a new session with each table, until its ``store`` ends them."""

    def __init__(self, upstream: str, store: VendedStore) -> None:
        super().__init__(upstream)
        self._store = store

    def own_answer(self, request: Request) -> Response | None:
        del request.headers["Accept-Encoding"]
        answer = self.pass_on(request)
        if not answer.content.startswith(b"{") or b'"metadata"' not in answer.content:
            return answer
        content = json.loads(answer.content)
        token = self._store.vend()
        content["config"] = {**content.get("config", {}), "s3.endpoint": self._store.url}
        keys = {
            "s3.access-key-id": "vended",
            "s3.secret-access-key": "vended-secret",
            "s3.session-token": token,
        }
        # For the bucket: Iceberg's Java library deletes many files with no credentials of a longer prefix.
        bucket = "/".join(content["metadata"]["location"].split("/")[:3])
        content["storage-credentials"] = [{"prefix": bucket, "config": keys}]
        return _answer(answer.status, content)


class VendedStore(_Guard):
    """An S3 that takes a session's token until it is ended."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.refused = 0
        self._valid: set[str] = set()

    def vend(self) -> str:
        """Return the token of a new session."""
        token = uuid.uuid4().hex
        self._valid.add(token)
        return token

    def end_sessions(self) -> None:
        """End every session begun until now."""
        self._valid.clear()

    def own_answer(self, request: Request) -> Response | None:
        if request.headers.get("x-amz-security-token") in self._valid:
            return None
        self.refused += 1
        content = (
            b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        )
        return Response(400, (("Content-Type", "application/xml"),), content)


@contextmanager
def guarded(properties: Mapping[str, str]) -> Iterator[tuple[dict[str, str], VendedStore]]:
    """Yield properties of this catalog behind OAuth, which vends what its store takes, and that store."""
    with (
        VendedStore(properties["s3.endpoint"]) as store,
        VendingProxy(properties["uri"], store) as vending,
        TokenGuard(vending.url) as guard,
    ):
        own = {name: value for name, value in properties.items() if not name.startswith("s3.")}
        login = {"uri": guard.url, "credential": f"{CLIENT_ID}:{CLIENT_SECRET}", "s3.region": "us-east-1"}
        yield own | login, store


def _catalog_error(status: int, kind: str, message: str) -> Response:
    return _answer(status, {"error": {"message": message, "type": kind, "code": status}})


def _answer(status: int, content: Any) -> Response:
    return Response(status, _JSON, json.dumps(content).encode())
