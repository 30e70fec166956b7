"""The text of a new ``sluice.yaml``: short, commented, and valid as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from spark_jobs.config.templates import safe_name

_PLAIN = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_./${}@-]*(:\d+)?")


def render_config(
    *,
    bootstrap_servers: str | None,
    topics: Iterable[str],
    namespace: str = "lake",
    properties: Mapping[str, str] | None = None,
) -> str:
    """Return a configuration for these topics; without ``bootstrap_servers`` for the embedded broker."""
    kafka = {**({"bootstrap.servers": bootstrap_servers} if bootstrap_servers else {}), **(properties or {})}
    return _TEMPLATE.format(kafka=_kafka(kafka), pipelines=_pipelines(topics, namespace))


def _kafka(properties: Mapping[str, str]) -> str:
    lines = [f"  {key}: {_scalar(value)}" for key, value in properties.items()]
    return "\n".join(["kafka:", *lines] if lines else ["# kafka:", "#   bootstrap.servers: localhost:9092"])


def _pipelines(topics: Iterable[str], namespace: str) -> str:
    lines = ["pipelines:"]
    names: set[str] = set()
    for topic in topics:
        name = safe_name(topic)
        while name in names:
            name += "_"
        names.add(name)
        lines += [f"  {name}:", f"    topic: {_scalar(topic)}", f"    table: {namespace}.{name}"]
    if not names:
        lines += ["  # orders:", "  #   topic: orders", f"  #   table: {namespace}.orders"]
    return "\n".join(lines)


def _scalar(value: str) -> str:
    is_plain = _PLAIN.fullmatch(value) and value.lower() != "null"
    return value if is_plain else json.dumps(value, ensure_ascii=False)


_TEMPLATE = """\
# Sluice: Kafka topics into Iceberg tables. Every key: docs/CONFIG.md. Check this file: ./sluice validate
version: 1

# Any librdkafka property. Without a broker here, ./sluice up runs its own.
# Secrets: ${{NAME}} from the environment or ${{file:/path}}, never the value itself.
{kafka}
#   security.protocol: SASL_SSL
#   sasl.mechanism: SCRAM-SHA-512
#   sasl.username: sluice
#   sasl.password: ${{KAFKA_PASSWORD}}

# A catalog that speaks Iceberg's REST protocol. Without one: SQLite and a folder in the state folder.
# catalog:
#   name: sluice
#   type: rest
#   uri: http://localhost:8181
#   warehouse: s3://bucket/lake
# The transaction log, beside the warehouse and never inside it.
# state: s3://bucket/sluice-log

# Where tasks run. Without this: the Spark Connect server of ./sluice up, else a session inside the run.
# spark:
#   remote: sc://spark:15002
#   task_memory: 512MiB

# Settings of every pipeline that does not say otherwise.
defaults:
  start: earliest
  freshness: 60s
#   partition_by: [day(_kafka_timestamp)]
#   owners: [team:data]

# One topic, one table. Several: topics: [a, b] or topics_regex: 'shop\\..*', with table: lake.{{topic}}
{pipelines}

# Team files, each with pipelines of its own; a bad one does not stop the others.
# Their webhooks use only what is lent here.
# include: [{{files: teams/*.yaml, secrets: [A_HOOK], webhook_hosts: [hooks.example.com]}}]
"""
