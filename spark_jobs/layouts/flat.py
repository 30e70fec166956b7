"""The flat layout: a row per record, with its value's fields as columns."""

from __future__ import annotations

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Layout


class Flat(Layout):
    """The flat layout, and defaults of the other layouts."""

    __slots__ = ()

    def content(self, pipeline: PipelineConfig) -> str:
        """Return the contents of its table, as Dagster shows them."""
        kept = " that the filter keeps" if pipeline.filter else ""
        tables = " or ".join(f"`{name}`" for name in (pipeline.table, *pipeline.routed_tables))
        return f"Every record of the Kafka topic `{pipeline.topic}`{kept}, once, as a row of {tables}"

    def unlike(self, *, name: str, own: str, there: str, kind: str, is_declared: bool) -> SluiceError:
        """Return the error for a schema field of a type that its column does not hold."""
        root = there.partition(".")[0]
        return fault("schema-incompatible", name=name, own=own, found=there, kind=kind, root=root)


LAYOUT = Flat("flat")
