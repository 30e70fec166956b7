"""PyIceberg's REST client, made to give up and to speak to every server of the protocol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema

from spark_jobs.lake.rest_answers import own_answer

if TYPE_CHECKING:
    from requests import Response, Session

TIMEOUTS_SECONDS = (10.0, 60.0)  # to connect, to wait for an answer


class PatientRestCatalog(RestCatalog):
    """A REST catalog whose every request has timeouts; one that never answers would block for ever."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        send = session.request

        def request(method: str, url: str, **options: Any) -> Response:
            body = options.get("data")
            if isinstance(body, bytes) and b'"add-schema"' in body:
                options["data"] = with_last_column_ids(body)
            return own_answer(method, send(method, url, timeout=TIMEOUTS_SECONDS, **options))

        session.request = request  # type: ignore[method-assign, assignment]
        return session


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
