"""dagster-pyspark's resource, which makes every session: on a Connect server any number in one process."""

from __future__ import annotations

import os

from dagster_pyspark import LazyPySparkResource
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.session import SparkSession as ConnectSession


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
