"""Requests to a running ``serve``: the one that ``up`` started, or at ``serve.listen``."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import NewConnectionError

from servers.certificates import fingerprint
from servers.listener import guard_of, url_of
from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import error_from_json, fault

_CONNECT_SECONDS = 2.0
_LOOK_SECONDS = 2.0


def followed(config: SluiceConfig) -> list[dict[str, Any]] | None:
    """Return the progress of a running ``serve`` by pipeline; None if none runs.

    Raises ``RetryableError``: ``serve-away``.
    """
    answered = ask_serve(config, "GET", "/v1/pipelines", seconds=_LOOK_SECONDS)
    return None if answered is None else answered.json()["pipelines"]


def ask_serve(
    config: SluiceConfig, method: str, path: str, body: Any = None, *, seconds: float | None = None
) -> requests.Response | None:
    """Return the response, or None if no server for this lake listens; the caller closes it.

    Raises the server's refusals, and ``RetryableError`` (``serve-away``).
    """
    listen = config.serve.listen
    url = read_endpoints(config.home).serve or (url_of(config.serve, listen) if listen else None)
    if url is None:
        return None
    headers = {"Sluice-Lake": lake_id(config), "Accept-Encoding": "identity"}
    if tokens := guard_of(config.serve)["tokens"]:
        headers["Authorization"] = f"Bearer {tokens[0]}"
    session = requests.Session()
    session.trust_env = False  # no proxy between, and no file of the user's (.netrc) says who asks
    if config.serve.tls is not None:
        session.mount("https://", _Pinned(fingerprint(config.serve.tls.cert)))
        session.verify = False  # by an authority; the fingerprint says more
    try:
        answered = session.request(
            method,
            f"{url}{path}",
            json=body,
            headers=headers,
            timeout=(_CONNECT_SECONDS, seconds),
            allow_redirects=False,
            stream=True,
        )
        if answered.status_code == requests.codes.ok:
            return answered
        refusal = answered.json()
    except requests.RequestException as error:
        cause = getattr(error.args[0], "reason", error) if error.args else error
        if isinstance(cause, NewConnectionError):
            return None
        raise fault("serve-away", why=str(cause)) from error
    if refusal.get("code") == "not-served":
        return None
    if "kind" in refusal:
        raise error_from_json(refusal)
    raise fault("serve-away", why=f"it answered {answered.status_code}: {refusal.get('message')}")


class _Pinned(HTTPAdapter):
    """TLS adapter that accepts only the configured certificate, under any host name."""

    def __init__(self, certificate: str) -> None:
        self._certificate = certificate
        super().__init__()

    def init_poolmanager(self, *sizes: Any, **options: Any) -> None:
        super().init_poolmanager(*sizes, assert_fingerprint=self._certificate, **options)


# Which catalog and broker a Sluice works with, without their secrets: two may listen on one machine.


def lake_id(config: SluiceConfig) -> str:
    """Return an id that is equal for configurations whose pipelines of one name are equal."""
    catalog = config.catalog
    broker = config.kafka.get("bootstrap.servers") or config.home
    lake = [catalog.properties.get(name, "") for name in ("uri", "warehouse")]
    parts = [catalog.name, *map(redact_urls, lake), broker]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
