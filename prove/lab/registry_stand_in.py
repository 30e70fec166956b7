"""A minimal registry: Confluent's documented answers and GUIDs, and custom answers."""

from __future__ import annotations

import base64
import json
import ssl
import uuid
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

from prove.lab.http_proxy import Client, HttpProxy, Request, Response

_TYPE = ("Content-Type", "application/vnd.schemaregistry.v1+json")
_NO_SCHEMA, _NO_SUBJECT, _NO_VERSION = 40403, 40401, 40402


class RegistryStandIn(HttpProxy):
    """Accepts what serializers register; ``asked`` are the paths of GETs in order.

    ``answers`` are given instead of its own, by path below the address; ``wanted`` is the Authorization
    without which nobody is answered.
    """

    def __init__(self, *, base: str = "", tls: ssl.SSLContext | None = None, wanted: str = "") -> None:
        super().__init__(f"http://127.0.0.1{base}", tls=tls)
        self.asked: list[str] = []
        self.answers: dict[str, Response] = {}
        self._wanted = wanted
        self._base = base
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, list[int]] = {}

    def register(self, subject: str, text: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Return the id of a subject's next version; equal schemas have one id everywhere."""
        content = {"schema": text, "schemaType": kind, "references": list(references)}
        if content not in self._schemas:
            self._schemas.append(content)
        schema_id = self._schemas.index(content) + 1
        versions = self._subjects.setdefault(subject, [])
        if schema_id not in versions:
            versions.append(schema_id)
        return schema_id

    def guid(self, schema_id: int) -> str:
        """Return a schema's GUID, derived from its content as Confluent's are."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(self._schemas[schema_id - 1])))

    def serve(self, request: Request, client: Client) -> None:
        path = urlsplit(request.path).path.removeprefix(self._base).strip("/")
        if request.method == "GET":
            self.asked.append(path)
        if self._wanted and request.headers.get("Authorization") != self._wanted:
            client.answer(_answer({"error_code": 401, "message": "Unauthorized"}, HTTPStatus.UNAUTHORIZED))
        elif path in self.answers:
            client.answer(self.answers[path])
        else:
            client.answer(self._answer_of(request, [unquote(part) for part in path.split("/")]))

    def _answer_of(self, request: Request, parts: list[str]) -> Response:
        match parts:
            case ["subjects"]:
                return _answer(sorted(self._subjects))
            case ["schemas", "ids", text]:
                return self._schema(int(text))
            case ["schemas", "guids", text]:
                ids = range(1, len(self._schemas) + 1)
                return self._schema(next((each for each in ids if self.guid(each) == text), 0))
            case ["subjects", subject, "versions"] | ["subjects", subject] if request.method == "POST":
                body = json.loads(request.body)
                given = body["schema"], body.get("schemaType", "AVRO"), body.get("references") or ()
                self.register(subject, *given)
                return self._version(subject, self._subjects[subject].index(self.register(subject, *given)))
            case ["subjects", subject, "versions", text]:
                last = len(self._subjects.get(subject, ())) - 1
                return self._version(subject, last if text == "latest" else int(text) - 1)
        return Response(HTTPStatus.NOT_FOUND, (("Content-Type", "text/html"),), b"<h1>Not Found</h1>")

    def _schema(self, schema_id: int) -> Response:
        if not 0 < schema_id <= len(self._schemas):
            return _answer({"error_code": _NO_SCHEMA, "message": "Schema not found"}, HTTPStatus.NOT_FOUND)
        return _answer({**self._schemas[schema_id - 1], "guid": self.guid(schema_id)})

    def _version(self, subject: str, index: int) -> Response:
        versions = self._subjects.get(subject, [])
        if not 0 <= index < len(versions):
            code = _NO_VERSION if versions else _NO_SUBJECT
            return _answer({"error_code": code, "message": "not found"}, HTTPStatus.NOT_FOUND)
        schema_id = versions[index]
        place = {"subject": subject, "version": index + 1, "id": schema_id, "guid": self.guid(schema_id)}
        return _answer({**self._schemas[schema_id - 1], **place})


def basic(user: str, password: str) -> str:
    """Return the header of basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _answer(content: object, status: int = HTTPStatus.OK) -> Response:
    return Response(status, (_TYPE,), json.dumps(content).encode())
