"""Every mistake in a configuration is found at once, with its line, its key and what to write instead."""

from __future__ import annotations

import pytest

from spark_jobs.config.build import build_config
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.file import parse_document

HEAD = "version: 1\n"


def problems_of(text):
    """All mistakes of a main file, as (line, key, message and hint)."""
    document, problems = parse_document("sluice.yaml", text)
    if document is not None:
        home, folder = "/home/.sluice", "/home"
        built = build_config(document, (), home=home, folder=folder, judge=judge_expressions)
        problems += built.problems
    return [(p.line, p.key, f"{p.message} — {p.hint}") for p in problems]


def pipeline(lines):
    """A file with one pipeline, whose settings begin at line 5."""
    return HEAD + "pipelines:\n  a:\n    topic: a\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "line", "key", "said"),
    [
        ("pipelines: {}\n", None, "version", "is required"),
        ("version: 2\n", 1, "version", "version: 1"),
        (HEAD + "kafak: {}\n", 2, "kafak", "Did you mean kafka?"),
        (HEAD + "kafka: localhost:9092\n", 2, "kafka", "must be a map"),
        (HEAD + "state: [s3://bucket/log]\n", 2, "state", "must be a map"),
        (HEAD + "state: {s3.region: x}\n", 2, "state.uri", "is required"),
        (HEAD + "state: {uri: s3://b/log, s3.region: '${'}\n", 2, "state.s3.region", "no closing brace"),
        (HEAD + "kafka:\n  client.id: [1]\n", 3, "kafka.client.id", "must be text"),
        (
            HEAD + "kafka:\n  isolation.level: read_uncommitted\n",
            3,
            "kafka.isolation.level",
            "read_committed",
        ),
        (
            HEAD + "kafka:\n  auto.offset.reset: earliest\n",
            3,
            "kafka.auto.offset.reset",
            "must have the value error",
        ),
        (HEAD + "kafka:\n  fetch.max.wait.ms: 5\n", 3, "kafka.fetch.max.wait.ms", "fetch.wait.max.ms"),
        (
            HEAD + "kafka:\n  bootstrap_servers: b:1\n",
            3,
            "kafka.bootstrap_servers",
            "Did you mean bootstrap.servers?",
        ),
        (HEAD + "kafka:\n  sasl.password:\n", 3, "kafka.sasl.password", "must be text"),
        (
            HEAD + "kafka:\n  sasl.password: ${A B}\n",
            3,
            "kafka.sasl.password",
            "not contain the name of an environment variable",
        ),
        (
            HEAD + "kafka_auth: {aws_msk_iam: {region: eu-central-1}}\nkafka:\n  sasl.mechanism: PLAIN\n",
            4,
            "kafka.sasl.mechanism",
            "SASL_SSL with OAUTHBEARER",
        ),
        (
            HEAD + "kafka_auth:\n  aws_msk_iam:\n    region: Frankfurt\n",
            4,
            "kafka_auth.aws_msk_iam.region",
            "eu-central-1",
        ),
        (
            HEAD + "kafka:\n  kafka_auth.aws_msk_iam.region: x\n",
            3,
            "kafka.kafka_auth.aws_msk_iam.region",
            "not a",
        ),
        (HEAD + "kafka:\n  sasl.password: ${file:pw}\n", 3, "kafka.sasl.password", "absolute path"),
        (HEAD + "catalog:\n  token: ${T\n  type: rest\n", 3, "catalog.token", "no closing brace"),
        (HEAD + "catalog:\n  warehouse: s3://b/lake\n", 2, "catalog", "neither uri nor type"),
        (HEAD + "spark:\n  remote: sc://a:1\n  master: local\n", 2, "spark", "both remote and master"),
        (HEAD + "spark:\n  remote: spark://a:1\n", 3, "spark.remote", "sc://host"),
        (HEAD + "spark:\n  task_memory: 512\n", 3, "spark.task_memory", "256MiB"),
        (HEAD + "spark:\n  conf:\n    spark.master: local\n", 4, "spark.conf.spark.master", "spark: {master"),
        (
            HEAD + "spark:\n  conf:\n    executor.cores: 4\n",
            4,
            "spark.conf.executor.cores",
            "begins with spark.",
        ),
        (HEAD + "state: /home/.sluice/lake/log\n", 2, "state", "inside the warehouse"),
        (
            HEAD + "state: s3://b/log\npipelines:\n  a: {topic: a, table: l.a, location: 's3://b/'}\n",
            4,
            "pipelines.a.location",
            "log would be inside this",
        ),
        (
            HEAD + "state: /log\npipelines:\n  a: {topic: a, table: l.a, location: /log/tables}\n",
            4,
            "pipelines.a.location",
            "inside the transaction log",
        ),
        (
            HEAD + "state: s3://b/log\npipelines:\n"
            "  a: {topics_regex: 'a.*', table: 'l.{topic}', location: s3://b/log/a}\n",
            4,
            "pipelines.a.location",
            "inside the transaction log",
        ),
        (HEAD + "ui:\n  tokens: ['${UI_TOKEN']\n", 3, "ui.tokens.0", "no closing brace"),
        (HEAD + "metrics:\n  tokens: $METRICS_TOKEN\n", 3, "metrics.tokens", "is not a reference"),
        (
            HEAD + "spark:\n  remote: 'sc://a:1/;token=${SPARK_TOKEN}'\n",
            3,
            "spark.remote",
            "SPARK_TOKEN",
        ),
        (HEAD + "defaults:\n  location: lake\n", 3, "defaults.location", "not a storage location"),
        (HEAD + "defaults:\n  topic: a\n", 3, "defaults.topic", "not a key"),
        (HEAD + "defaults:\n  freshness: 1 minute\n", 3, "defaults.freshness", "not a duration"),
        (HEAD + "defaults:\n  freshness_seconds: 60s\n", 3, "defaults.freshness_seconds", "mean freshness?"),
        ("version: 1\nkafka:\n\tbootstrap.servers: b:1\n", 3, "", "is indented with a tab"),
        (HEAD + "pipelines:\n  2a: {topic: a, table: l.a}\n", 3, "pipelines.2a", "not a valid pipeline name"),
        (HEAD + "pipelines:\n  a: {table: l.a}\n", 3, "pipelines.a", "has no topic"),
        (HEAD + "pipelines:\n  a:\n    topics: [a]\n    table: l.a\n", 5, "pipelines.a.table", "{topic}"),
        (
            HEAD + "pipelines:\n  a:\n    topics: []\n    table: l.{topic}\n",
            4,
            "pipelines.a.topics",
            "is empty",
        ),
        (
            HEAD + "pipelines:\n  a:\n    topics_regex: '(?=a)'\n    table: l.{topic}\n",
            4,
            "pipelines.a.topics_regex",
            "'(?=a)' has a lookaround",
        ),
        (pipeline([]), 3, "pipelines.a.table", "is required"),
        (pipeline(["tabel: l.a"]), 5, "pipelines.a.tabel", "Did you mean table?"),
        (pipeline(["table: a"]), 5, "pipelines.a.table", "namespace.table"),
        (pipeline(["table: l.a", "topics: [b]"]), 3, "pipelines.a", "both topic and topics"),
        (pipeline(["table: l.a", "start: yesterday"]), 6, "pipelines.a.start", "earliest, latest, a time"),
        (pipeline(["table: l.a", "start: {0: x}"]), 6, "pipelines.a.start", "{0: 100"),
        (pipeline(["table: l.a", "schedule: daily"]), 6, "pipelines.a.schedule", "every night at 02:00"),
        (pipeline(["table: l.a", "timezone: Berlin"]), 6, "pipelines.a.timezone", "Europe/Berlin"),
        (
            pipeline(["table: l.a", "upkeep: {schedule: 0 2 30 2 *}"]),
            6,
            "pipelines.a.upkeep.schedule",
            "a date that does not exist",
        ),
        (pipeline(["table: l.a", "max_batch_records: 0"]), 6, "pipelines.a.max_batch_records", "positive"),
        (pipeline(["table: l.a", "max_batch_bytes: 5"]), 6, "pipelines.a.max_batch_bytes", "not a size"),
        (
            pipeline(["table: l.a", "partition_by: weekly(x)"]),
            6,
            "pipelines.a.partition_by.0",
            "not an Iceberg",
        ),
        *(
            (
                pipeline(["table: l.a", f"columns: {{x: {kind}}}", f"partition_by: {term}"]),
                7,
                "pipelines.a.partition_by",
                f"x, which is {kind}",
            )
            for kind, term in (
                ("double", "x"),
                ("float", "x"),
                ("time", "day(x)"),
                ("uuid", "truncate(2, x)"),
            )
        ),
        (pipeline(["table: l.a", "columns: {x: bigint}"]), 6, "pipelines.a.columns.x", "Did you mean long?"),
        (
            pipeline(["table: l.a", "columns: {_kafka_offset: int}"]),
            6,
            "pipelines.a.columns._kafka_offset",
            "itself",
        ),
        (pipeline(["table: l.a", "owners: [me]"]), 6, "pipelines.a.owners.0", "team:name"),
        (pipeline(["table: l.a", "key_format: binary"]), 6, "pipelines.a.key_format", "key: {format: raw}"),
        (pipeline(["table: l.a", "encoding: compact"]), 6, "pipelines.a.encoding", "Remove it"),
        ("version: 1\ngateway: {rates: {address: 5}}\n", 2, "gateway.rates", "in gateway.tokens"),
        ("version: 1\nserve: {head: 7s}\n", 2, "serve.head", "Remove it"),
        (
            pipeline(["table: l.a", "table_properties:", "  sluice.offsets: 0"]),
            7,
            "pipelines.a.table_properties.sluice.offsets",
            "only Sluice's commits write",
        ),
        (
            pipeline(["table: l.a", "table_properties:", "  commit.retry.num-retries: 0"]),
            7,
            "pipelines.a.table_properties.commit.retry.num-retries",
            "default",
        ),
        (
            pipeline(["table: l.a", "table_properties: {write.parquet.compression-codec: brotli}"]),
            6,
            "pipelines.a.table_properties.write.parquet.compression-codec",
            "gzip, lz4, snappy, uncompressed. Spark, which compacts the table, cannot write Brotli.",
        ),
        (
            pipeline(["table: l.a", "table_properties: {write.parquet.compression-codec: lzo}"]),
            6,
            "pipelines.a.table_properties.write.parquet.compression-codec",
            "Use one of zstd, gzip",
        ),
        (
            pipeline(
                [
                    "table: l.a",
                    "table_properties:",
                    "  write.parquet.compression-codec: gzip",
                    "  write.parquet.compression-level: 6",
                ]
            ),
            8,
            "pipelines.a.table_properties.write.parquet.compression-level",
            "does not apply to the codec gzip",
        ),
        (
            pipeline(["table: l.a", "table_properties: {write.parquet.compression-level: 23}"]),
            6,
            "pipelines.a.table_properties.write.parquet.compression-level",
            "from -7 to 22",
        ),
        (
            pipeline(["table: l.a", "table_properties: {write.parquet.row-group-size-bytes: 64MiB}"]),
            6,
            "pipelines.a.table_properties.write.parquet.row-group-size-bytes",
            "without a unit",
        ),
        *(
            (
                pipeline(["table: l.a", f"table_properties: {{{key}: {value}}}"]),
                6,
                f"pipelines.a.table_properties.{key}",
                said,
            )
            for key, value, said in (
                ("write.metadata.metrics.default", "some", "none, counts, full or truncate(LENGTH)"),
                (
                    "write.metadata.metrics.column.id",
                    "truncate(0)",
                    "none, counts, full or truncate(LENGTH)",
                ),
                ("write.metadata.previous-versions-max", "many", "a whole number above 0"),
                ("write.target-file-size-bytes", "512MB", "without a unit"),
                ("commit.manifest.min-count-to-merge", "1e2", "a whole number above 0"),
                ("write.metadata.delete-after-commit.enabled", "maybe", "true or false"),
                ("write.object-storage.partitioned-paths", "2", "true or false"),
            )
        ),
        (
            pipeline(["table: l.a", "table_properties: {write.data.path: /home/.sluice}"]),
            6,
            "pipelines.a.table_properties.write.data.path",
            "log would be inside",
        ),
        (pipeline(["table: l.a", "format: avro"]), 6, "pipelines.a.format", "value: {format: avro, "),
        (pipeline(["table: l.a", "mode: upsert"]), 6, "pipelines.a.mode", "layout: mirror"),
        (pipeline(["table: l.Sluice_batches"]), 5, "pipelines.a.table", "is reserved for the table"),
        (pipeline(["table: l.a", "table: l.b"]), 6, "pipelines.a.table", "twice, first in line 5"),
        ("- a\n", 1, "", "must be a map"),
        (HEAD + "kafka: {a: b\n", 3, "", "expected"),
    ],
)
def test_a_mistake_is_named_with_line_and_key(text, line, key, said):
    """One wrong line gives one problem: at that line, under that key, with the way out."""
    ((found_line, found_key, message),) = problems_of(text)
    assert (found_line, found_key) == (line, key)
    assert said in message


def test_all_mistakes_are_reported_together():
    """A wrong type in one place hides no contradiction, clash or typing slip in another."""
    text = HEAD + (
        "spark: {remote: 'sc://a:1', master: local}\n"
        "defaults: {freshness: 60}\n"
        "pipelines:\n"
        "  a: {topic: a, table: l.a, partition_by: dya(x)}\n"
        "  b: {topic: b, table: l.b}\n"
        "  c: {topic: c, table: L.B}\n"
        "  d: {topic: d, table: l.b_dead_letters}\n"
    )
    assert [(line, key) for line, key, _ in problems_of(text)] == [
        (2, "spark"),
        (3, "defaults.freshness"),
        (5, "pipelines.a.partition_by.0"),
        (7, "pipelines.c.table"),
        (8, "pipelines.d.table"),
    ]


def test_syntax_errors_do_not_quote_the_file():
    """The library's own message shows the line or the alias, which may be a password; ours never does."""
    for text in (
        "kafka:\n  sasl.password: *hunter2-secret\n",
        "kafka:\n  p: !hunter2-secret x\n",
        "p: 'hunter2-secret\n",
    ):
        ((_, _, message),) = problems_of(HEAD + text)
        assert "hunter2" not in message


def test_an_anchor_within_itself_is_refused():
    """A file that refers to itself ends in a message, not in a stack overflow."""
    ((_, _, message),) = problems_of("version: &a\n  b: *a\n")
    assert "own alias" in message


def test_scalars_stay_the_text_they_are():
    """YAML 1.1 would read 0123 as 83, on as true and a time as a date object."""
    document, _ = parse_document(
        "f", "kafka: {a: 0123, b: on, c: 1_0, d: 1e3, e: 2026-01-31T06:00:00Z, f: ~}\n"
    )
    assert document.content["kafka"] == {
        "a": "0123",
        "b": "on",
        "c": "1_0",
        "d": "1e3",
        "e": "2026-01-31T06:00:00Z",
        "f": None,
    }
