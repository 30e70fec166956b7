"""dagster-pyspark's resource, which makes every session: on a Connect server any number in one process."""

from __future__ import annotations

from dagster_pyspark import LazyPySparkResource
from pyspark.sql.connect.session import SparkSession as ConnectSession


class SparkSessionResource(LazyPySparkResource):
    """One session: that of the URL in ``spark.remote``, else this process's local one."""

    def _init_session(self) -> None:
        """Make it when it is first asked for; a second of Connect needs a builder that reuses no other."""
        conf = dict(self.spark_config)
        remote = conf.pop("spark.remote", None)
        if self._spark_session is None and remote and ConnectSession.getActiveSession() is not None:
            self._spark_session = ConnectSession.builder.remote(remote).config(map=conf).create()
        super()._init_session()
