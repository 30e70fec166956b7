"""moto's S3 with one address more, which makes old what a bucket holds: its dates are not the client's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Any

from moto import server
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

MAKE_OLD = "/make-old/"  # as in prove.lab.s3, which this program cannot import
OLD = dt.timedelta(days=4)


class _AgingStore(server.DomainDispatcherApplication):
    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if not path.startswith(MAKE_OLD):
            return super().__call__(environ, start_response)  # type: ignore[no-any-return]
        bucket, _, prefix = path.removeprefix(MAKE_OLD).partition("/")
        objects = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys
        for name, stored in list(objects.items()):
            if name.startswith(prefix):
                stored.last_modified -= OLD
        start_response("204 No Content", [])
        return []


if __name__ == "__main__":
    server.DomainDispatcherApplication = _AgingStore  # type: ignore[misc]
    server.main()
