"""dagster-pyspark's resource, which makes every session: on a Connect server any number in one process."""

from __future__ import annotations

import logging
import os
import time

import grpc
from dagster_pyspark import LazyPySparkResource
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub, UserContext
from pyspark.sql.connect.session import SparkSession as ConnectSession

ANSWER_SECONDS = 30.0
TELL_SECONDS = 5.0
_AGAIN_SECONDS = 0.5

_logger = logging.getLogger(__name__)


class SparkSessionResource(LazyPySparkResource):
    """One session: that of the URL in ``spark.remote``, else this process's local one."""

    def _init_session(self) -> None:
        """Make it when it is first asked for; one of Connect by a builder that reuses no other."""
        conf = dict(self.spark_config)
        remote = conf.pop("spark.remote", None)
        if self._spark_session is None and remote:
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as PySpark's own builder does
            builder = ConnectSession.builder.channelBuilder(_Channel(remote))
            self._spark_session = builder.config(map=conf).create()
        super()._init_session()


class _Channel(DefaultChannelBuilder):
    """PySpark's own, which sends a token without TLS to the host ``localhost`` alone.

    Our server listens on 127.0.0.1: whoever listens on ``[::1]`` must not be given token and credentials.
    """

    @property
    def endpoint(self) -> str:
        is_ours = self._host == "localhost" and self.token is not None and not self.use_ssl
        return f"127.0.0.1:{self._port}" if is_ours else super().endpoint


def wait_for_answer(url: str) -> None:
    """Return once the server has said anything at all, with a line every few seconds until then.

    PySpark would ask one that takes connections and answers none for ten minutes, without a word. Raises
    ``TimeoutError``.
    """
    builder = _Channel(url)
    request = AnalyzePlanRequest(
        session_id=builder.session_id,
        user_context=UserContext(user_id=builder.userId),
        spark_version=AnalyzePlanRequest.SparkVersion(),
    )
    began = told = time.monotonic()
    with builder.toChannel() as channel:
        ask = SparkConnectServiceStub(channel).AnalyzePlan.future
        asked = ask(request, metadata=builder.metadata(), wait_for_ready=True)
        while (now := time.monotonic()) - began < ANSWER_SECONDS:
            if now - told >= TELL_SECONDS:
                _logger.info("Spark has not answered for %.0f s", now - began)
                told = now
            try:
                asked.result(_AGAIN_SECONDS)
            except grpc.FutureTimeoutError:
                continue
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    return  # a refusal is an answer, which PySpark is given as well
                time.sleep(_AGAIN_SECONDS)
                asked = ask(request, metadata=builder.metadata(), wait_for_ready=True)
            else:
                return
    raise TimeoutError(f"it takes connections, and has said nothing for {ANSWER_SECONDS:.0f} s")
