"""Recognizes a topic's first records before it has a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from spark_jobs.config.value_format import ValueFormat
from spark_jobs.drain.first_batch import is_unreadable
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.preview.recognition import Recognized, Sample, Use, is_of_connect, recognize, together
from spark_jobs.preview.sample import Written, is_compacted, keys_as_values, read_as, read_sample, written_in
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.records.appearance import appearance, values_of
from spark_jobs.registry.schema_store import SchemaStore

_CHANGES = {"layout": "changes"}
_IN_AVRO = {side: {"format": "avro", "registry": "main"} for side in ("value", "key")}


@dataclass(frozen=True, slots=True)
class Prospect:
    """The findings on a topic's first records.

    ``unreadable`` says why no table is to be made of it: what the values are when there are some and none can
    be read, or whose own they are; it is empty otherwise. ``columns`` are those that a first batch of these
    records would make, read as ``found`` says. ``value`` and ``key`` are the formats by schemas of the
    registry that was asked, None where there is no need of them.
    """

    topic: str
    records: int
    columns: tuple[str, ...]
    unreadable: str
    found: tuple[Recognized, ...]
    value: ValueFormat | None = None
    key: ValueFormat | None = None

    @property
    def are_changes(self) -> bool:
        """True if values are change events, or a key's new rows."""
        return "layout" in together(self.found, Use.VALUES)


def prospects(
    kafka: Mapping[str, str], topics: Iterable[str], *, max_records: int, registry: SchemaStore | None = None
) -> Iterator[tuple[str, Prospect | SluiceError]]:
    """Yield each topic with the findings on its first records, or the error of reading them.

    The ``registry`` is asked for the schemas that values and keys name. Raises as
    ``KafkaAdmin.source_states`` does when the broker itself cannot be asked.
    """
    with closing(KafkaAdmin(kafka)) as admin:
        sources = admin.source_states(topics)
        compacted = {topic: is_compacted(admin, topic) for topic in sources}
    for topic, source in sources.items():
        if isinstance(source, SluiceError):
            yield topic, source
            continue
        try:
            chunks = read_sample(kafka, source, source.low, max_records=max_records)
            yield topic, prospect(chunks, topic, registry, is_compacted=compacted[topic])
        except SluiceError as error:
            yield topic, error


def prospect(
    chunks: Sequence[Chunk], topic: str, registry: SchemaStore | None, *, is_compacted: bool = False
) -> Prospect:
    """Return the findings on these records: by themselves, or by their registry's schemas."""
    evidence, columns = read_as({}, chunks, registry)
    unreadable = appearance(values_of(chunks)) if is_unreadable(evidence) else ""
    format_found = written_in(chunks, registry)
    value = format_found.format if isinstance(format_found, Written) else None
    of_keys = written_in([keys_as_values(chunk) for chunk in chunks], registry)
    key = of_keys.format if isinstance(of_keys, Written) else None
    if isinstance(format_found, Written):
        evidence, columns, unreadable = format_found.evidence, format_found.columns, ""
    elif format_found and unreadable:
        unreadable = f"{unreadable}; {format_found}"
    place = _IN_AVRO if registry is not None and value is key is ValueFormat.AVRO else {}
    events, of_events = read_as(_CHANGES | place, chunks, registry)
    sample = Sample(chunks, evidence, columns, is_compacted=is_compacted)
    found = tuple(each for each in recognize(sample) if key is None or each.use is not Use.KEYS)
    if place and events.records > events.undecodable:
        columns, found = of_events, (Recognized("", _CHANGES, Use.VALUES),)
    elif settings := together(found, Use.VALUES):
        (_, columns), unreadable = read_as(settings, chunks, registry), ""
        key = None if "layout" in settings else key  # beside such events no key is read by a schema
    if is_of_connect(topic, sample):
        unreadable = "Kafka Connect stores settings, offsets or states in it"
    elif sample.documents and not events.records and not events.undecodable:
        unreadable = "it contains Debezium's heartbeats or schema history, not changes"
    return Prospect(
        topic,
        records=sum(len(chunk.offsets) for chunk in chunks),
        columns=tuple(column.name for column in columns),
        unreadable=unreadable,
        found=found,
        value=value,
        key=key,
    )
