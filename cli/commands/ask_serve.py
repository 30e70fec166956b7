"""Asking the ``serve`` that runs, if one does: an answer with Kafka in it, or how far its pipelines are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.protocol.errors import RetryableError, error_from_json

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.watermark import Watermark
    from spark_jobs.query.query import Answer

_CONNECT_SECONDS = 2.0
_LOOK_SECONDS = 2.0


@contextmanager
def fresh_answer(
    pipeline: PipelineConfig,
    connections: Connections,
    sql: str,
    *,
    after: Mapping[int, int] | None = None,
    at: Watermark | None = None,
) -> Iterator[tuple[Answer, str]]:
    """Give an answer and its watermark, from the running ``serve``, or by reading Kafka once where none is.

    Raises as ``query`` and ``read_fresh``, and ``RetryableError`` (``serve-away``) for one that listens and
    does not answer.
    """
    from spark_jobs.hot.fresh import read_fresh
    from spark_jobs.query.query import query

    with ExitStack() as stack:
        body = {"pipeline": pipeline.name, "sql": sql, "format": "arrow", "after": after or {}}
        answered = _asked(load_config(), "POST", "/v1/query", {**body, "at": str(at) if at else None})
        if answered is not None:
            stack.callback(answered.release_conn)
            yield _streamed(answered), answered.headers["Sluice-Watermark"]
            return
        prefix = read_fresh(pipeline, connections, after=after, at=at)
        yield stack.enter_context(query(pipeline, connections, sql, prefix=prefix)), str(prefix.watermark)


def followed(config: SluiceConfig) -> list[dict[str, Any]] | None:
    """Return how far the running ``serve`` is, pipeline by pipeline; None where none runs.

    Raises ``RetryableError``: ``serve-away``.
    """
    answered = _asked(config, "GET", "/v1/pipelines", seconds=_LOOK_SECONDS)
    return None if answered is None else answered.json()["pipelines"]


def _streamed(answered: BaseHTTPResponse) -> Answer:
    import pyarrow as pa

    from spark_jobs.query.query import Answer

    def batches() -> Iterator[pa.RecordBatch]:
        with _whole():
            yield from reader

    with _whole():
        reader = pa.ipc.open_stream(answered)
    return Answer(reader.schema, batches())


@contextmanager
def _whole() -> Iterator[None]:
    import pyarrow as pa
    import urllib3

    try:
        yield
    except (OSError, pa.ArrowException, urllib3.exceptions.HTTPError) as error:
        raise _away(f"its answer broke off: {error}") from error


def _asked(
    config: SluiceConfig, method: str, path: str, body: Any = None, *, seconds: float | None = None
) -> BaseHTTPResponse | None:
    """Return what is answered, None where nobody listens who serves this; raises what it refuses."""
    import urllib3

    from servers.listener import guard_of
    from spark_jobs.serve.lake_id import lake_id

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
        raise _away(str(error)) from error
    if refusal.get("code") == "not-served":
        return None
    if "kind" in refusal:
        raise error_from_json(refusal)
    raise _away(f"it answered {answered.status}: {refusal.get('message')}")


def _url(config: SluiceConfig) -> str | None:
    from servers.listener import url_of
    from spark_jobs.connections.endpoints import read_endpoints

    if (started := read_endpoints(config.home).serve) is not None:
        return started
    return url_of(config.serve, config.serve.listen) if config.serve.listen else None


def _pinned(config: SluiceConfig) -> dict[str, Any]:
    """Have TLS show the very certificate that is configured, under whatever name it is asked here."""
    from servers.certificates import fingerprint

    if config.serve.tls is None:
        return {}
    return {"assert_fingerprint": fingerprint(config.serve.tls.cert), "cert_reqs": "CERT_NONE"}


def _away(why: str) -> RetryableError:
    return RetryableError(
        f"what listens where `serve` should does not answer: {why}",
        code="serve-away",
        hint="Its log is logs/serve.log in the state folder of `./sluice up`. Stop it, and the command reads"
        " Kafka itself.",
    )
