"""Asking the ``serve`` that runs, if one does: where ``up`` started it, or where ``serve.listen`` says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import urllib3

from servers.certificates import fingerprint
from servers.listener import guard_of, url_of
from serving.lake_id import lake_id
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import SluiceError, error_from_json, fault

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

_CONNECT_SECONDS = 2.0
_LOOK_SECONDS = 2.0


def followed(config: SluiceConfig) -> list[dict[str, Any]] | None:
    """Return how far the running ``serve`` is, pipeline by pipeline; None where none runs.

    Raises ``RetryableError``: ``serve-away``.
    """
    answered = asked(config, "GET", "/v1/pipelines", seconds=_LOOK_SECONDS)
    return None if answered is None else answered.json()["pipelines"]


def asked(
    config: SluiceConfig, method: str, path: str, body: Any = None, *, seconds: float | None = None
) -> BaseHTTPResponse | None:
    """Return what is answered, None where nobody listens who serves this; the caller releases it.

    Raises what it refuses, and ``RetryableError`` (``serve-away``).
    """
    if (url := _url(config)) is None:
        return None
    headers = {"Sluice-Lake": lake_id(config), "Content-Type": "application/json"}
    if tokens := guard_of(config.serve)["tokens"]:
        headers["Authorization"] = f"Bearer {tokens[0]}"
    try:
        answered = urllib3.PoolManager(**_pinned(config)).request(
            method,
            f"{url}{path}",
            body=json.dumps(body).encode() if body else None,
            headers=headers,
            preload_content=False,
            retries=False,
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=seconds),
        )
        if answered.status == 200:  # noqa: PLR2004  (OK)
            return answered
        refusal = json.loads(answered.data)
    except urllib3.exceptions.NewConnectionError:
        return None
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        raise away(str(error)) from error
    if refusal.get("code") == "not-served":
        return None
    if "kind" in refusal:
        raise error_from_json(refusal)
    raise away(f"it answered {answered.status}: {refusal.get('message')}")


def away(why: str) -> SluiceError:
    """Return the error of a ``serve`` that is there and does not answer."""
    return fault("serve-away", why=why)


def _url(config: SluiceConfig) -> str | None:
    if (started := read_endpoints(config.home).serve) is not None:
        return started
    return url_of(config.serve, config.serve.listen) if config.serve.listen else None


def _pinned(config: SluiceConfig) -> dict[str, Any]:
    """Have TLS show the very certificate that is configured, under whatever name it is asked here."""
    if config.serve.tls is None:
        return {}
    return {"assert_fingerprint": fingerprint(config.serve.tls.cert), "cert_reqs": "CERT_NONE"}
