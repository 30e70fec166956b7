"""One POST to a webhook, with short timeouts and a plain outcome."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import requests
from requests.utils import get_auth_from_url

from spark_jobs import __version__

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
# The receiver says that this body can never be taken. Other refusals (a wrong token, a wrong path, too many
# requests) are mended by a person or by time.
_NEVER = frozenset({400, 410, 413, 415, 422})


class Delivery(StrEnum):
    """What became of a POST."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Posted:
    """``detail`` is a status or the kind of failure: an exception's own text would hold the URL."""

    delivery: Delivery
    detail: str


def post(url: str, body: Mapping[str, Any], secret: str | None = None) -> Posted:
    """Send it once, signed with the secret where there is one.

    Redirects are not followed: they would turn the POST into a GET, or go elsewhere.
    """
    headers = {"User-Agent": f"sluice/{__version__}", "Idempotency-Key": str(body["id"])}
    try:
        sent = json.dumps(body, allow_nan=False).encode()
        if secret is not None:
            headers["Sluice-Signature"] = signature(sent, secret, int(time.time()))
        written = get_auth_from_url(url)
        # The body of the answer is not read: it may be of any size.
        with requests.post(
            url,
            data=sent,
            headers={"Content-Type": "application/json", **headers},
            # Said, or what a file of the user's (.netrc) has for that host would go with it.
            auth=written if any(written) else (lambda request: request),
            timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
            allow_redirects=False,
            stream=True,
        ) as answer:
            status = answer.status_code
    except (requests.RequestException, OSError, ValueError) as error:
        return Posted(Delivery.AWAY, type(error).__name__)
    if requests.codes.ok <= status < requests.codes.multiple_choices:
        return Posted(Delivery.DELIVERED, f"HTTP {status}")
    return Posted(Delivery.REFUSED if status in _NEVER else Delivery.AWAY, f"HTTP {status}")


def signature(body: bytes, secret: str, at: int) -> str:
    """Return the header: the second it was sent in, and the HMAC-SHA256 of that, a dot and the body."""
    signed = hmac.new(secret.encode(), b"%d.%s" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"
