"""Steps of ``check``: each returns a detail to print or raises; steps that need a failed one are skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.serializers import FromInputFile

from cli import output
from cli.commands.config_template import proposals
from resources.spark import CHECK, WorkSpark
from spark_jobs.config.catalog_rules import refuse_untaken
from spark_jobs.config.quantities import StartKind, format_size
from spark_jobs.config.redaction import redact_urls
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.connections.connect import open_catalog, open_log, open_registry
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.connections.writer_schemas import schema_sources
from spark_jobs.drain.first_batch import is_unreadable
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.client_properties import certificate_ends
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.lake.catalog import close_catalog
from spark_jobs.lake.catalog_names import catalog_type, spark_catalog_conf
from spark_jobs.lake.tables import load_table, progress_of
from spark_jobs.preview.catalog_limits import near_limits
from spark_jobs.preview.catalog_trial import refuse_unfit, try_catalog
from spark_jobs.preview.preview import new_table
from spark_jobs.preview.reachability import PYTHON, Target, try_from_task, try_storage, versions
from spark_jobs.preview.recognition import Sample, recognize
from spark_jobs.preview.sample import is_compacted, look_at, read_sample
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.source import SourceState
from spark_jobs.records.appearance import appearance, unreadable_chunks, values_of
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.schema.declared import (
    check_beside,
    check_declared,
    partition_spec,
    partition_terms,
    table_notes,
)
from spark_jobs.schema.iceberg_types import known_fields

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from spark_jobs.schema.evidence import Evidence

Result = TypeVar("Result")
RECORDS_OBSERVED = 1000
DAY_MS = 24 * 3600 * 1000
QUEUE_BYTES = 1 << 20
READ_SECONDS = 15.0


class Checklist:
    """Runner of steps that prints a line for each and counts results; ``proposed`` is printed after them."""

    def __init__(self, say: Callable[[str], None] = output.say) -> None:
        self.done = 0
        self.failed = 0
        self.skipped = 0
        self.details: list[str] = []
        self.proposed: list[str] = []
        self._say = say

    def run(self, name: str, step: Callable[[], tuple[Result, str]]) -> Result | None:
        """Run one step, which returns its result and a detail to print; return None if it fails."""
        began = time.monotonic()
        self.done += 1
        try:
            result, detail = step()
        except Exception as error:  # noqa: BLE001  (whatever it met, the other steps go on)
            self.failed += 1
            first, *rest = output.error_lines(error)
            self._say(_line("FAIL", name, began, first.removeprefix("error: ")))
            for line in rest:
                self._say(f"      {line}")
            return None
        self.details.append(detail)
        self._say(_line("ok", name, began, detail))
        return result

    def skip(self, name: str, needs: str) -> None:
        """Print that a step was skipped."""
        self.skipped += 1
        self._say(f"skip  {name:<28} {'':>9}  needs {needs}")


@dataclass(frozen=True, slots=True)
class Shared:
    """Connections shared by all pipelines, None if unreachable; properties are resolved and hold secrets."""

    kafka: dict[str, str] | None
    catalog: Catalog | None
    session: SparkSession | None


def check_shared(checklist: Checklist, config: SluiceConfig, *, beside: str = "") -> Shared:
    """Test broker, catalog, transaction log, registries and Spark.

    With a table's name, the catalog is also tested on scratch tables ``beside`` it.
    """
    kafka = checklist.run("broker", lambda: _broker(config))
    catalog = checklist.run("catalog", lambda: _catalog(config))
    if beside and catalog is not None:
        checklist.run("catalog commits", lambda: _catalog_commits(config, beside))
    checklist.run("state", lambda: _state(config))
    for name in config.registries:
        checklist.run(f"registry {name}", partial(_registry, config, name))
    session: SparkSession | None = None
    # A session that has no server yet is a process of this command, which takes long to start.
    if (kafka is not None and catalog is not None) or WorkSpark(config, CHECK).where is not None:
        session = checklist.run("Spark", lambda: _spark(config))
    else:
        checklist.skip("Spark", "broker and catalog, because it must be started first")
    return Shared(kafka, catalog, session)


def check_pipeline(
    config: SluiceConfig, pipeline: PipelineConfig, shared: Shared, *, is_brief: bool
) -> Checklist:
    """Test the connections of one pipeline; ``is_brief`` prints one line if all pass."""
    lines: list[str] = []
    began, checklist = time.monotonic(), Checklist(lines.append if is_brief else output.say)
    _try_pipeline(checklist, config, pipeline, shared)
    if is_brief and not checklist.failed + checklist.skipped:
        detail = f"{output.count(checklist.done, 'check')}; {checklist.details[0]}"
        lines = [_line("ok", pipeline.name, began, detail)]
    output.say(*lines, *checklist.proposed)
    return checklist


def _try_pipeline(
    checklist: Checklist, config: SluiceConfig, pipeline: PipelineConfig, shared: Shared
) -> None:
    """Test topic, read access, table, storage, a Spark task and Spark's catalog."""
    name = pipeline.name
    kafka, catalog, session = shared.kafka, shared.catalog, shared.session
    source = None
    if kafka is None:
        checklist.skip(f"{name}: topic", "the broker")
    else:
        source = checklist.run(f"{name}: topic", lambda: _topic(kafka, pipeline))
        if source is not None:
            checklist.run(f"{name}: read access", lambda: _read_one(kafka, source))
    table = None
    location = ""
    if catalog is None:
        checklist.skip(f"{name}: table", "the catalog")
    else:
        found = checklist.run(f"{name}: table", lambda: _table(catalog, pipeline))
        table = found[0] if found else None
        location = _storage_location(catalog, table)
        if found is not None and table is None and source is not None and kafka is not None:
            _check_first_values(checklist, config, kafka, pipeline, source)
    properties = {**resolve(config.catalog.properties), **(table.io.properties if table else {})}
    _check_storage(checklist, name, location, properties)
    if session is None or kafka is None:
        checklist.skip(f"{name}: Spark task", "Spark and the broker")
    else:
        target = Target(kafka, pipeline.topic, location, properties)
        checklist.run(f"{name}: Spark task", lambda: _task(session, target))
    if session is not None and table is not None:
        checklist.run(f"{name}: Spark catalog", lambda: _both_catalogs(config, session, table, pipeline))


def _check_storage(checklist: Checklist, name: str, location: str, properties: dict[str, str]) -> None:
    if location:
        checklist.run(f"{name}: storage", lambda: _storage(location, properties))
    else:
        checklist.skip(f"{name}: storage", "the catalog, or a table that shows where files are stored")


def _check_first_values(
    checklist: Checklist,
    config: SluiceConfig,
    kafka: dict[str, str],
    pipeline: PipelineConfig,
    source: SourceState,
) -> None:
    """Test the first values of a new table, unless it starts later than `earliest`."""
    if OffsetRanges.between(source.low, source.end) and pipeline.start.kind is StartKind.EARLIEST:
        step = partial(_values, checklist, config, kafka, pipeline, source)
        seen = checklist.run(f"{pipeline.name}: values", step)
        if seen and pipeline.table_partition_by:
            checklist.run(f"{pipeline.name}: partitions", lambda: _partitions(*seen))


def _line(word: str, name: str, began: float, detail: str) -> str:
    return f"{word:<5} {name:<28} {(time.monotonic() - began) * 1000:>6.0f} ms  {detail}"


def _broker(config: SluiceConfig) -> tuple[dict[str, str], str]:
    kafka = resolve_kafka_properties(config)
    topics = KafkaAdmin(kafka).topics()
    seen = output.count(len(topics), "topic")
    return kafka, f"{kafka['bootstrap.servers']} answers, {seen} visible{_certificate_ends(kafka)}"


def _catalog(config: SluiceConfig) -> tuple[Catalog, str]:
    catalog = open_catalog(config)
    try:
        namespaces = catalog.list_namespaces()
    except BaseException:
        close_catalog(catalog)
        raise
    return catalog, f"{config.catalog.name}, {output.count(len(namespaces), 'namespace')}"


def _catalog_commits(config: SluiceConfig, beside: str) -> tuple[bool, str]:
    answers = try_catalog(partial(open_catalog, config), beside.rpartition(".")[0])
    refuse_unfit(answers, catalog=config.catalog.name)
    return True, str(answers)


def _registry(config: SluiceConfig, name: str) -> tuple[bool, str]:
    schemas = open_registry(config.registries, open_log(config).store, name)
    answer = schemas.try_out()
    kept = schemas.kept()
    missing = schemas.check(kept)
    lost = f", {len(missing)} of them missing" if missing else ""
    return True, f"{answer}, {output.count(len(kept), 'schema')} stored{lost}"


def _topic(kafka: dict[str, str], pipeline: PipelineConfig) -> tuple[SourceState, str]:
    admin = KafkaAdmin(kafka)
    source = admin.source_state(pipeline.topic)
    records = output.count(sum(source.end.values()) - sum(source.low.values()), "record")
    partitions = output.count(len(source.end), "partition")
    return source, f"{pipeline.topic}, {partitions}, {records}, {_retention(admin, pipeline.topic)}"


def _retention(admin: KafkaAdmin, topic: str) -> str:
    try:
        settings = admin.topic_config(topic)
    except SluiceError as error:
        return f"retention unknown ({error.code})"  # a right of its own, which draining does not need
    policy = settings.get("cleanup.policy", "delete")
    if "delete" not in policy:
        return "compacted: Kafka keeps the newest record of each key"
    days = int(settings.get("retention.ms", -1)) / DAY_MS
    size = int(settings.get("retention.bytes", -1))
    limits = [f"{days:.3g} days"] if days >= 0 else []
    limits += [f"{format_size(size)} per partition"] if size >= 0 else []
    kept = f"retention {' or '.join(limits)}" if limits else "unlimited retention"
    return f"{kept}, {policy}"


def _values(
    checklist: Checklist,
    config: SluiceConfig,
    kafka: dict[str, str],
    pipeline: PipelineConfig,
    source: SourceState,
) -> tuple[tuple[ReadingPlan, Evidence], str]:
    chunks = read_sample(kafka, source, source.low, max_records=RECORDS_OBSERVED)
    registry = partial(open_registry, config.registries, open_log(config).store)
    schemas = schema_sources(config, registry)(pipeline)
    plan, evidence = look_at(ReadingPlan.to_observe(pipeline, schemas), chunks)
    values = values_of(chunks)
    table_plan, _ = new_table(plan, evidence)
    compacted = is_compacted(KafkaAdmin(kafka), pipeline.topic)
    sample = Sample(chunks, evidence, known_fields(table_plan.schema), is_compacted=compacted)
    for reasons, lines in proposals([each for each in recognize(sample, pipeline) if each.description]):
        checklist.proposed += [
            *(f"      {each}" for each in reasons),
            *(f"          {each}" for each in lines),
        ]
    if is_unreadable(evidence):
        raise unreadable_chunks(pipeline, plan.format.decoder, chunks)
    if pipeline.value.format is ValueFormat.JSON:
        return (table_plan, evidence), appearance(values) or "only tombstones"
    read = f"{evidence.records:,} of {output.count(len(values), 'value')} read as {pipeline.value.format}"
    named = ", ".join(map(str, schemas.digests()))
    return (table_plan, evidence), f"{read}, schema {named}" if named else read


def _partitions(plan: ReadingPlan, evidence: Evidence) -> tuple[bool, str]:
    if not evidence.records:
        return True, "no record to derive columns from yet"
    schema = plan.schema
    terms = partition_terms(schema, partition_spec(schema, plan.pipeline.table_partition_by))
    return True, f"{', '.join(terms)}, from {output.count(evidence.records, 'record')}"


def _table(catalog: Catalog, pipeline: PipelineConfig) -> tuple[tuple[Table | None], str]:
    """Return the table, or None if it does not exist, as a tuple of one."""
    table = load_table(catalog, pipeline.table)
    if table is None:
        for name in (pipeline.table, *pipeline.routed_tables):
            refuse_untaken(catalog.properties, name)
        return (None,), f"{pipeline.table} does not exist yet"
    check_declared(pipeline, table)
    routed = [load_table(catalog, name) for name in pipeline.routed_tables]
    letters = load_table(catalog, pipeline.dead_letter_table)
    check_beside(table, letters, routed, pipeline.dead_letters.columns)
    notes = table_notes(pipeline, table, progress_of(table))
    near = near_limits(catalog_type(catalog.properties), table.metadata)
    return (table,), ", ".join((pipeline.table, str(table.metadata.table_uuid), *notes, *near))


def _storage_location(catalog: Catalog, table: Table | None) -> str:
    """Return the location of data files, or the warehouse for a new table; empty if unknown."""
    if table is not None:
        return table.location()
    warehouse = catalog.properties.get("warehouse", "")
    # A REST catalog's warehouse may be a mere name, whose place only a created table would show.
    return warehouse if "/" in warehouse else ""


def _storage(location: str, properties: dict[str, str]) -> tuple[bool, str]:
    try_storage(location, properties)
    return True, f"put, get, list, delete in {location}"


def _state(config: SluiceConfig) -> tuple[bool, str]:
    _, detail = _storage(config.state, resolve(config.log_properties))
    if open_log(config).store.refuses_a_second():
        return True, detail
    return True, f"{detail}; not create-only: a second put overwrites the first (docs/how-to/deploy.md)"


def _spark(config: SluiceConfig) -> tuple[SparkSession, str]:
    spark = WorkSpark(config, CHECK)
    session, where = spark.session(), spark.where or config.spark.master or "a session in this process"
    return session, f"{session.version} at {redact_urls(where)}"


def _task(session: SparkSession, target: Target) -> tuple[bool, str]:
    remote, off = try_from_task(session, target)
    others = [
        f"{name} {remote.get(name)} there, {local} here"
        for name, local in versions().items()
        if remote.get(name) != local
    ]
    same = f"{output.count(len(remote) - 1, 'package')} and Python {remote[PYTHON]} match"
    slow = f"; JSON is decoded at less than half the speed, WebAssembly is off ({off})" if off else ""
    return True, f"broker and storage reached; {', '.join(others) or same}{slow}"


def _both_catalogs(
    config: SluiceConfig, session: SparkSession, table: Table, pipeline: PipelineConfig
) -> tuple[bool, str]:
    name = config.catalog.name
    if session.conf.get(f"spark.sql.catalog.{name}", "") == "":
        for key, value in spark_catalog_conf(name, resolve(config.catalog.properties)).items():
            session.conf.set(key, value)
    identifier = ".".join(f"`{part}`" for part in (name, *pipeline.table.split(".")))
    query = f"SELECT file FROM {identifier}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"  # noqa: S608
    (row,) = session.sql(query).collect()
    seen = FromInputFile.table_metadata(table.io.new_input(row.file)).table_uuid
    if seen != table.metadata.table_uuid:
        raise fault("two-catalogs", seen_here=table.metadata.table_uuid, seen=seen, table=pipeline.table)
    return True, f"PyIceberg and Spark see {seen}"


def _certificate_ends(kafka: dict[str, str]) -> str:
    """Return the time until the broker's and client's certificates expire; empty without TLS."""
    now = datetime.now(UTC)
    days = {whose: output.count((end - now).days, "day") for whose, end in certificate_ends(kafka).items()}
    return "".join(f", the {whose}'s certificate expires in {left}" for whose, left in days.items())


def _read_one(kafka: dict[str, str], source: SourceState) -> tuple[bool, str]:
    """Read the first record of the topic; if it is empty, check the right to read."""
    filled = [partition for partition, end in source.end.items() if end > source.low[partition]]
    if not filled:
        rights = KafkaAdmin(kafka).rights(source.topic)  # none at all: a broker that does not tell them
        if rights and "READ" not in rights:
            reason = "it is not granted"
            raise fault(
                "not-authorised", right="Read", doing="looking at the rights", why=reason, topic=source.topic
            )
        return True, "granted; the topic is empty"
    start = source.low[filled[0]]
    reader = RangeReader(
        kafka,
        source.topic,
        max_chunk_bytes=QUEUE_BYTES,
        queue_bytes=QUEUE_BYTES,
        max_chunk_records=1,
        read_timeout_seconds=READ_SECONDS,
    )
    with closing(reader):
        read = sum(len(chunk.offsets) for chunk in reader.read(OffsetRange(filled[0], start, start + 1)))
    return True, f"{output.count(read, 'record')} of partition {filled[0]} at offset {start}"
