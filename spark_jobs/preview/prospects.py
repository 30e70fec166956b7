"""What a topic's first records say of it before there is a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import KeySettings, Layout, ValueFormat, ValueSettings
from spark_jobs.drain.first_batch import is_unreadable
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.preview.sample import observe_sample, read_sample, values_of
from spark_jobs.preview.written_in import Written, keys_as_values, look_by, written_in
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.records.appearance import appearance
from spark_jobs.records.formats import JSON, format_of
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import known_fields
from spark_jobs.schema.inference import Field, choose_types
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.proposals import NO_PROPOSALS, Proposals, propose

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.registry.kept_schemas import KeptSchemas


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the first records of a topic look like.

    ``unreadable`` says what the values are when there are some and none can be read, and is empty otherwise.
    ``columns`` are those that a first batch of these records would make. ``value`` and ``key`` are the
    formats by schemas of the registry that was asked, None where there is no need of them. ``are_changes`` if
    all values are events of a database's table.
    """

    topic: str
    records: int
    columns: tuple[str, ...]
    unreadable: str
    proposals: Proposals
    value: ValueFormat | None = None
    key: ValueFormat | None = None
    are_changes: bool = False


def prospects(
    kafka: Mapping[str, str], topics: Iterable[str], *, max_records: int, registry: KeptSchemas | None = None
) -> Iterator[tuple[str, Prospect | SluiceError]]:
    """Yield each topic with what its first records look like, or why they could not be read.

    The ``registry`` is asked for the schemas that values and keys name. Raises as
    ``KafkaAdmin.source_states`` does when the broker itself cannot be asked.
    """
    with closing(KafkaAdmin(kafka)) as admin:
        sources = admin.source_states(topics)
    for topic, source in sources.items():
        if isinstance(source, SluiceError):
            yield topic, source
            continue
        try:
            chunks = read_sample(kafka, source, source.low, max_records=max_records)
            yield topic, prospect(chunks, topic, registry)
        except SluiceError as error:
            yield topic, error


def prospect(chunks: Sequence[Chunk], topic: str, registry: KeptSchemas | None) -> Prospect:
    """Return what these records look like: JSON, or what the registry says of the schemas that they name."""
    evidence = observe_sample(JSON.decoder, chunks)
    columns = tuple(choose_types(evidence, max_columns=JSON.decoder.growth.max_columns))
    unreadable = appearance(values_of(chunks)) if is_unreadable(evidence) else ""
    told = written_in(chunks, registry)
    if isinstance(told, Written):
        evidence, columns, unreadable = told.evidence, told.columns, ""
    elif told and unreadable:
        unreadable = f"{unreadable}; {told}"
    of_keys = written_in([keys_as_values(chunk) for chunk in chunks], registry)
    value = told.format if isinstance(told, Written) else None
    key = of_keys.format if isinstance(of_keys, Written) else None
    is_avro = registry is not None and (value, key) == (ValueFormat.AVRO, ValueFormat.AVRO)
    changes = _changes(chunks, registry if is_avro else None)
    if changes is not None:
        columns, unreadable = changes, ""
    return Prospect(
        topic,
        records=sum(len(chunk.offsets) for chunk in chunks),
        columns=tuple(column.name for column in columns),
        unreadable=unreadable,
        proposals=NO_PROPOSALS if changes is not None else propose(columns, evidence),
        value=value if changes is None or is_avro else None,
        key=key if changes is None or is_avro else None,
        are_changes=changes is not None,
    )


def _changes(chunks: Sequence[Chunk], registry: KeptSchemas | None) -> tuple[Field, ...] | None:
    """Return the columns of a table of changes, None where not all values are events.

    They are in Avro where there is a ``registry``.
    """
    place = {} if registry is None else {"format": ValueFormat.AVRO, "registry": "any"}
    pipeline = PipelineConfig(
        name="any",
        topic="any",
        table="any.any",
        layout=Layout.CHANGES,
        value=ValueSettings.model_validate(place),
        record_key=KeySettings.model_validate(place),
    )
    if registry is None:
        read_as = format_of(pipeline, KnownSchemas())
        evidence = observe_sample(read_as.decoder, chunks)
    else:
        read_as, evidence = look_by(pipeline, chunks, registry)
    if evidence.undecodable or not evidence.records:
        return None
    columns, _ = read_as.columns.first(evidence, ())
    return known_fields(evolved(Schema(), columns))
