"""moto's S3 with an additional address that sets objects' dates back, and moto's Glue at the same address.

A bucket whose name begins with ``replacing`` ignores If-None-Match, as stores do that never heard of it. Glue
compares a table's version with ``VersionId``, which moto does not and a database ``lax…`` does not either.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import run_simple

MAKE_OLD = "/make-old/"  # as in prove.lab.s3, which this program cannot import
OLD = dt.timedelta(days=4)
# Not through moto's dispatcher, which looks through all its services' folders at every request.
_store: Any = create_backend_app("s3")
_glue: Any = create_backend_app("glue")
_one_at_a_time = Lock()
_update_table = GlueResponse.update_table


class _Quiet(MotoRequestHandler):
    """Logs no requests."""

    def log_request(self, *_: object) -> None:
        """Log nothing."""


def _update_compared(request: Any) -> Any:
    database, table = request.parameters["DatabaseName"], request.parameters["TableInput"]["Name"]
    wanted = request.parameters.get("VersionId")
    found = request.glue_backend.get_table(database, table).as_dict()["VersionId"]
    if wanted not in {None, found} and not database.startswith("lax"):
        raise JsonRESTError("ConcurrentModificationException", f"version {found}, not {wanted}")
    return _update_table(request)


GlueResponse.update_table = _update_compared  # type: ignore[method-assign, assignment]


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request; moto handles all but ours."""
    path = environ["PATH_INFO"]
    if environ.get("HTTP_X_AMZ_TARGET", "").startswith("AWSGlue."):
        with _one_at_a_time:  # moto looks for a table and then creates it
            return list(_glue(environ, start_response))
    if path.startswith("/replacing"):
        environ.pop("HTTP_IF_NONE_MATCH", None)
    if not path.startswith(MAKE_OLD):
        answer: Iterable[bytes] = _store(environ, start_response)
        return answer
    bucket, _, prefix = path.removeprefix(MAKE_OLD).partition("/")
    for name, stored in list(s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys.items()):
        if name.startswith(prefix):
            stored.last_modified -= OLD
    start_response("204 No Content", [])
    return []


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=_Quiet)
