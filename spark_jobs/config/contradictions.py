"""Keys that contradict each other or that Sluice fixes itself, found in parsed content of any shape. Pure.

These look at the raw content, so that a file with a wrong type elsewhere still has all its mistakes named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from spark_jobs.config.kafka_keys import validate_kafka_properties
from spark_jobs.config.parquet_codecs import wrong_property
from spark_jobs.config.problems import Finding, Path
from spark_jobs.config.redaction import wrong_reference
from spark_jobs.protocol.progress import PREFIX

LISTENERS = ("ui", "metrics", "catalog_server", "serve", "gateway")
_SPARKS = ("remote", "remote_command", "master")
_SOURCES = ("topic", "topics", "topics_regex")
_OF_REGISTRY: tuple[tuple[str, ...], ...] = ((), ("auth",))
_CATALOG_KINDS = ("uri", "type", "py-catalog-impl")


def check_main_file(content: dict[str, Any]) -> Iterator[Finding]:
    """Return everything that can contradict in ``sluice.yaml``."""
    kafka = {key: value for key, value in _map(content, "kafka").items() if isinstance(value, str)}
    for finding in validate_kafka_properties(kafka):
        yield replace(finding, path=("kafka", *finding.path))
    if _map(content, "kafka_auth").get("aws_msk_iam") is not None:
        yield from _check_login(kafka)
    yield from _check_references(content)
    yield from _check_spark(_map(content, "spark"))
    yield from _check_registries(_map(content, "registries"))
    catalog = _map(content, "catalog")
    if set(catalog) - {"name"} and not any(kind in catalog for kind in _CATALOG_KINDS):
        yield Finding(
            ("catalog",),
            "says neither uri nor type",
            "Add uri, e.g. http://host:8181, or leave out catalog for the embedded one.",
        )
    yield from check_team_file(content)


def check_team_file(content: dict[str, Any]) -> Iterator[Finding]:
    """Return everything that can contradict in a file of pipelines."""
    yield from _check_table_properties(("defaults",), _map(content, "defaults"))
    for name, pipeline in _map(content, "pipelines").items():
        if isinstance(pipeline, dict):
            yield from _check_pipeline(("pipelines", name), pipeline)
            yield from _check_table_properties(("pipelines", name), pipeline)


def _check_pipeline(path: tuple[str, ...], pipeline: dict[str, Any]) -> Iterator[Finding]:
    sources = [source for source in _SOURCES if source in pipeline]
    if len(sources) > 1:
        yield Finding(
            path, f"has both {sources[0]} and {sources[1]}", "Keep one of topic, topics, topics_regex."
        )
    if not sources:
        yield Finding(path, "names no topic", "Add topic, topics or topics_regex.")
    if {"key", "key_format"} <= pipeline.keys():
        yield Finding((*path, "key_format"), "is there beside key", "Keep key: it says the format as well.")
    is_many = sources in (["topics"], ["topics_regex"])
    table = pipeline.get("table")
    if is_many and isinstance(table, str) and "{topic}" not in table:
        yield Finding((*path, "table"), "is one table for several topics", "Write namespace.{topic}.")
    for source in ("topic", "topics"):
        if source in pipeline and not pipeline[source]:
            yield Finding((*path, source), "is empty", "Name a topic.")


def _check_table_properties(path: tuple[str, ...], settings: dict[str, Any]) -> Iterator[Finding]:
    properties = _map(settings, "table_properties")
    for key in properties:
        where = (*path, "table_properties", key)
        if key.startswith(PREFIX):
            yield Finding(where, "is written by commits only", "Leave it out: it is the table's progress.")
        elif key.startswith("commit.retry."):
            yield Finding(
                where,
                "must keep its default",
                "Leave it out: Sluice does not use it, upkeep by Spark needs it.",
            )
        elif wrong := wrong_property(key, {k: str(v) for k, v in properties.items()}):
            yield Finding(where, *wrong)


def _check_spark(spark: dict[str, Any]) -> Iterator[Finding]:
    named = [key for key in _SPARKS if spark.get(key) is not None]
    if len(named) > 1:
        yield Finding(
            ("spark",),
            f"has both {named[0]} and {named[1]}",
            "Keep one: remote or remote_command for a Connect server, master for a session here.",
        )
    if spark.get("ship_python") == "true" and not {"remote", "remote_command"} & set(named):
        yield Finding(
            ("spark", "ship_python"),
            "is for a server that Sluice does not start",
            "Write remote or remote_command, or leave it out: this machine's workers have all they need.",
        )
    for key in _map(spark, "conf"):
        if key in {"spark.master", "spark.remote"}:
            yield Finding(
                ("spark", "conf", key),
                "is not set here",
                f"Write spark: {{{key.removeprefix('spark.')}: …}}.",
            )
        elif not key.startswith("spark."):
            yield Finding(("spark", "conf", key), "is no Spark configuration", "Its name starts with spark.")


def _check_registries(registries: dict[str, Any]) -> Iterator[Finding]:
    for name in registries:
        path, registry = ("registries", name), _map(registries, name)
        auth = _map(registry, "auth")
        if None not in (auth.get("basic"), auth.get("bearer")):
            yield Finding((*path, "auth"), "has both basic and bearer", "Keep one.")
        if registry.get("key") is not None and registry.get("cert") is None:
            yield Finding((*path, "key"), "is a key without a certificate", "Add cert.")


def _check_login(kafka: dict[str, str]) -> Iterator[Finding]:
    for name in kafka:
        if name == "security.protocol" or name.startswith("sasl."):
            hint = "Leave it out: aws_msk_iam is SASL_SSL with OAUTHBEARER."
            yield Finding(("kafka", name), "is there beside kafka_auth", hint)


def _check_references(content: dict[str, Any]) -> Iterator[Finding]:
    hint = "Write ${NAME} or ${file:/absolute/path}."
    for path, value in _with_references(content):
        if wrong := wrong_reference(value):
            yield Finding(path, wrong, hint)
        elif path[0] in LISTENERS and value.startswith("$") and "{" not in value:
            yield Finding(path, "begins as a reference and is none", hint)


def _with_references(content: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield every text that may hold references, and where it stands."""
    registries = [
        ("registries", name, *rest) for name in _map(content, "registries") for rest in _OF_REGISTRY
    ]
    for path in (
        ("kafka",),
        ("catalog",),
        ("state",),
        ("spark",),
        ("spark", "conf"),
        ("sources",),
        *registries,
    ):
        for key, value in reduce(_map, path, content).items():
            if isinstance(value, str):
                yield (*path, key), value
    for listener in LISTENERS:
        tokens = _map(content, listener).get("tokens")
        if isinstance(tokens, str):
            yield (listener, "tokens"), tokens
        for number, token in enumerate(tokens if isinstance(tokens, list) else ()):
            if isinstance(token, str):
                yield (listener, "tokens", str(number)), token


def _map(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}
