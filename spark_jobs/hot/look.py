"""A look at both sides of the seam: the lake first, then the topic, which a drain would go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.seam import Seam, load_seam
from spark_jobs.hot.watermark import Epoch
from spark_jobs.kafka.log_cut import cut_below
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.source import SourceState, drain_refusal

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class Looked:
    """What somebody saw who looks at all pipelines: the table, if it is a newer one, the topic, and when."""

    at: float
    seam: Seam | SluiceError | None
    source: SourceState | SluiceError


def look(pipeline: PipelineConfig, connections: Connections) -> tuple[Seam, Epoch, SourceState]:
    """Return what a drain would go on from.

    Raises ``ConfigError`` (``no-table-yet``, ``hot-needs-topic-ids``), and what planning a drain raises.
    """
    seam = load_seam(pipeline, connections)
    check_anchor(seam.table)
    progress, source = seam.progress, connections.admin.source_state(pipeline.topic)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
    if source.topic_id is None or progress.topic_id is None:
        raise fault("hot-needs-topic-ids", pipeline=pipeline.name, topic=pipeline.topic)
    uuid = str(seam.table.metadata.table_uuid)
    return seam, Epoch(uuid, source.topic_id, progress.generation, progress.rollbacks), source
