"""Subclass of dagster-pyspark's resource that can create several Spark Connect sessions per process."""

from __future__ import annotations

import logging
import os
import time
from functools import partial

import grpc
from dagster_pyspark import LazyPySparkResource
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub, UserContext
from pyspark.sql.connect.session import SparkSession as ConnectSession

ANSWER_SECONDS = 30.0
TELL_SECONDS = 5.0

_logger = logging.getLogger(__name__)


class SparkSessionResource(LazyPySparkResource):
    """One session: at ``spark.remote``, else local to this process."""

    def _init_session(self) -> None:
        """Create the session on first use; for Spark Connect with a builder that reuses no other."""
        conf = dict(self.spark_config)
        remote = conf.pop("spark.remote", None)
        if self._spark_session is None and remote:
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as PySpark's own builder does
            builder = ConnectSession.builder.channelBuilder(_Channel(remote))
            self._spark_session = builder.config(map=conf).create()
        super()._init_session()


class _Channel(DefaultChannelBuilder):
    """Channel builder that sends a token without TLS only to the host ``localhost``.

    Our server listens on 127.0.0.1: whoever listens on ``[::1]`` must not be given token and credentials.
    """

    @property
    def endpoint(self) -> str:
        is_ours = self._host == "localhost" and self.token is not None and not self.use_ssl
        return f"127.0.0.1:{self._port}" if is_ours else super().endpoint


def wait_for_answer(url: str) -> bool:
    """Return True if the server answers without refusal; log every few seconds while waiting.

    PySpark would ask one that takes connections and answers none for ten minutes, without a word. Raises
    ``TimeoutError``.
    """
    builder = _Channel(url)
    request = AnalyzePlanRequest(
        session_id=builder.session_id or "",
        user_context=UserContext(user_id=builder.userId or ""),
        spark_version=AnalyzePlanRequest.SparkVersion(),
    )
    began = time.monotonic()
    with builder.toChannel() as channel:
        asking = SparkConnectServiceStub(channel).AnalyzePlan  # type: ignore[no-untyped-call]
        ask = partial(asking.future, request, metadata=builder.metadata(), wait_for_ready=True)
        asked = ask()
        while (left := began + ANSWER_SECONDS - time.monotonic()) > 0:
            try:
                return bool(asked.result(min(left, TELL_SECONDS)))
            except grpc.FutureTimeoutError:
                pass
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    return False
                time.sleep(min(left, TELL_SECONDS))
                asked = ask()
            _logger.info("Spark has not answered for %.0f s", time.monotonic() - began)
    raise TimeoutError(f"it accepts connections, but has not answered for {ANSWER_SECONDS:.0f} s")
