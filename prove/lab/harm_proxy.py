"""A proxy for a server that is slow, refuses or breaks off all requests."""

from __future__ import annotations

import threading
import time
from enum import StrEnum

from prove.lab.http_proxy import Client, HttpProxy, Request, Response

LATE_SECONDS = 0.3
SILENCE_SECONDS = 15.0  # longer than the clients wait
EVERY = 3


class Harm(StrEnum):
    """A server's harm to its clients."""

    SLOW = "each answer a third of a second late"
    SOME_500 = "every third request answered 500 at first"
    SOME_CUT = "every third connection cut at first"
    SOME_HALF = "every third answer cut in half at first"
    ALL_500 = "every request answered 500"
    ALL_503 = "every request answered 503"
    ALL_CUT = "every connection cut"
    SILENT = "no request answered"
    DENIED = "every request answered 403, access denied"
    EXPIRED = "every request answered 400, the credentials have expired"

    @property
    def slug(self) -> str:
        """Name in cases."""
        return self.name.lower().replace("_", "-")

    @property
    def is_of_some(self) -> bool:
        """True if most requests are answered well."""
        return self in {Harm.SOME_500, Harm.SOME_CUT, Harm.SOME_HALF}


_REFUSALS = {  # by S3's own words; a catalog's client takes them for those of a gateway
    Harm.SOME_500: (500, "InternalError"),
    Harm.ALL_500: (500, "InternalError"),
    Harm.ALL_503: (503, "SlowDown"),
    Harm.DENIED: (403, "AccessDenied"),
    Harm.EXPIRED: (400, "ExpiredToken"),
}


class HarmProxy(HttpProxy):
    """Passes everything on until it gets a harm; ``harmed`` counts affected requests."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.harmed = 0
        self._harm: Harm | None = None
        self._lock = threading.Lock()
        self._asked = 0
        self._met: set[tuple[str, str]] = set()

    def suffer(self, harm: Harm | None) -> None:
        """Apply this harm from now on; None ends it."""
        self._harm = harm

    def serve(self, request: Request, client: Client) -> None:
        harm = self._harm_of(request)
        if harm is None:
            client.answer(self.pass_on(request))
        elif harm in _REFUSALS:
            client.answer(_refusal(*_REFUSALS[harm]))
        elif harm is Harm.SLOW:
            time.sleep(LATE_SECONDS)
            client.answer(self.pass_on(request))
        elif harm is Harm.SOME_HALF:
            client.answer(self.pass_on(request), is_half=True)
        else:
            if harm is Harm.SILENT:
                time.sleep(SILENCE_SECONDS)
            client.cut()

    def _harm_of(self, request: Request) -> Harm | None:
        """Return this request's harm; a repeated request may be spared."""
        what = (request.method, request.path)
        with self._lock:
            harm = self._harm
            self._asked += 1
            if harm is None or (harm.is_of_some and (self._asked % EVERY or what in self._met)):
                return None
            self._met.add(what)
            self.harmed += 1
            return harm


def _refusal(status: int, code: str) -> Response:
    content = f"<Error><Code>{code}</Code><Message>made up by the proxy</Message></Error>".encode()
    return Response(status, (("Content-Type", "application/xml"),), content)
