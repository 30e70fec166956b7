"""An answer with Kafka in it: the running ``serve``'s, or one's own where none runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from servers.asking import asked, away
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.watermark import Watermark
    from spark_jobs.query.query import Answer


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

    body = {"pipeline": pipeline.name, "sql": sql, "format": "arrow", "after": after or {}}
    with _served("POST", "/v1/query", {**body, "at": str(at) if at else None}) as answered:
        if answered is not None:
            yield answered
            return
    prefix = read_fresh(pipeline, connections, after=after, at=at)
    with query(pipeline, connections, sql, prefix=prefix) as answer:
        yield answer, str(prefix.watermark)


@contextmanager
def fresh_lookup(
    pipeline: PipelineConfig, connections: Connections, key: str
) -> Iterator[tuple[Answer, str]]:
    """Give the rows of a record key, the newest first, as ``fresh_answer`` does."""
    from spark_jobs.hot.fresh import read_fresh
    from spark_jobs.query.lookup import newest_of_key

    asked_for = urlencode({"key": key, "format": "arrow"})
    with _served("GET", f"/v1/pipelines/{pipeline.name}/lookup?{asked_for}") as answered:
        if answered is not None:
            yield answered
            return
    prefix = read_fresh(pipeline, connections)
    yield newest_of_key(pipeline, connections, key, prefix=prefix), str(prefix.watermark)


@contextmanager
def _served(method: str, path: str, body: Any = None) -> Iterator[tuple[Answer, str] | None]:
    """Give the running ``serve``'s answer and its watermark; None where none runs."""
    answered = asked(load_config(), method, path, body)
    if answered is None:
        yield None
        return
    try:
        yield _streamed(answered), answered.headers["Sluice-Watermark"]
    finally:
        answered.release_conn()


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
        raise away(f"its answer broke off: {error}") from error
