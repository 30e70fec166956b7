"""PyIceberg's REST client with timeouts, and compatible with every server of the protocol.

Which answers are a catalog's own, and which are those of a gateway or of another server, is told apart here.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import RESTError
from pyiceberg.schema import Schema
from requests import HTTPError, Response, Session

from spark_jobs.protocol.errors import fault, needs

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable

TIMEOUTS_SECONDS = (10.0, 60.0)  # to connect, to wait for an answer
_MISSING = re.compile(r"NoSuch\w*(Table|Namespace)|(Table|Tabular|Namespace|Entity)\w*NotFound")
_OAUTH = re.compile(r"[a-z_]+")  # its errors are a word
_SHOWN_CHARACTERS = 100


class PatientRestCatalog(RestCatalog):
    """A REST catalog with timeouts on every request; a server that never answers would block forever."""

    def _config_headers(self, session: Session) -> None:
        """Wrap every request of a new session; the first one may be for a token."""
        super()._config_headers(session)
        send = session.request

        def request(method: str, url: str, **options: Any) -> Response:
            body = options.get("data")
            if isinstance(body, bytes) and b'"add-schema"' in body:
                options["data"] = with_last_column_ids(body)
            return own_answer(method, send(method, url, timeout=TIMEOUTS_SECONDS, **options))

        session.request = request  # type: ignore[method-assign, assignment]

    def _init_sigv4(self, session: Session) -> None:
        with needs("glue"):
            super()._init_sigv4(session)
        signer = session.get_adapter(self.uri)
        if signer._boto_session.get_credentials() is None:  # type: ignore[attr-defined]  # noqa: SLF001
            raise fault("catalog-settings.unsigned", catalog=self.name)

    def _response_to_staged_table(self, identifier_tuple: Any, table_response: Any) -> StagedTable:
        """Take the credentials for the new table's place: it has no metadata file yet to choose them by."""
        place, vended = table_response.metadata.location, table_response.storage_credentials
        config = {**table_response.config, **self._resolve_storage_credentials(vended, place)}
        response = table_response.model_copy(update={"config": config})
        return super()._response_to_staged_table(identifier_tuple, response)


def with_last_column_ids(body: bytes) -> bytes:
    """Add ``last-column-id`` to the new schemas of a commit.

    The protocol has deprecated it, PyIceberg does not send it, and Nessie refuses a commit without it.
    """
    commit = json.loads(body)
    for update in commit.get("updates", ()):
        if update.get("action") == "add-schema":
            schema = Schema.model_validate(update["schema"])
            update.setdefault("last-column-id", schema.highest_field_id)
    return json.dumps(commit).encode()


def own_answer(method: str, response: Response) -> Response:
    """Return the answer in a form that PyIceberg reads: it takes every 404 for a missing table.

    Raises ``RESTError`` for a page in an answer's place, and for a 404 of all but a table or a namespace.
    """
    is_missing = response.status_code == HTTPStatus.NOT_FOUND
    if method.upper() == "HEAD" or (response.ok and not response.content.lstrip().startswith(b"<")):
        return response
    error = _error_of(response)
    if isinstance(error, dict):
        if is_missing and not _MISSING.search(str(error.get("type"))):
            raise RESTError(f"{error.get('type')}: {error.get('message')}") from HTTPError(response=response)
        return response
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    words = " ".join(re.sub(r"<[^>]*>", " ", response.text[:2000]).split())[:_SHOWN_CHARACTERS]
    message = f"not a catalog's answer: {response.status_code} {response.reason} {kind} {words}".rstrip()
    if response.ok or is_missing:
        raise RESTError(message) from HTTPError(response=response)
    if not _OAUTH.fullmatch(str(error)) or error is None:
        content = {"type": "not the catalog", "message": message, "code": response.status_code}
        response._content = json.dumps({"error": content}).encode()  # noqa: SLF001  (there is no public way)
    return response


def _error_of(response: Response) -> object:
    try:
        content = response.json()
    except ValueError:
        return None
    return content.get("error") if isinstance(content, dict) else None
