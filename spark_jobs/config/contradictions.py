"""Checks for contradictory and fixed keys in parsed content of any shape. Pure.

These look at the raw content, so that a file with a wrong type elsewhere still has all its mistakes named.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from spark_jobs.config.iceberg_terms import wrong_property
from spark_jobs.config.problems import ConfigProblem, Document, Finding, Path, mistake
from spark_jobs.config.redaction import REFERENCE, is_plain_secret, wrong_reference
from spark_jobs.config.registry_settings import RegistryKind
from spark_jobs.config.sections import validate_kafka_properties
from spark_jobs.protocol.progress import PREFIX

LISTENERS = ("ui", "metrics", "catalog_server", "serve", "gateway")
_SPARKS = ("remote", "remote_command", "master")
_SOURCES = ("topic", "topics", "topics_regex")
_REFERENCES = (
    r"(kafka|catalog|state|spark|spark/conf|sources|registries/[^/]+|registries/[^/]+/auth)/[^/]+"
    rf"|({'|'.join(LISTENERS)})/tokens(/\d+)?"
)
_CATALOG_KINDS = ("uri", "type", "py-catalog-impl")


def check_main_file(content: dict[str, Any]) -> Iterator[Finding]:
    """Yield the contradictions in ``sluice.yaml``."""
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
        yield mistake("catalog-nowhere", ("catalog",))
    yield from check_team_file(content)


def check_team_file(content: dict[str, Any]) -> Iterator[Finding]:
    """Yield the contradictions in a team file."""
    yield from _check_table_properties(("defaults",), _map(content, "defaults"))
    for name, pipeline in _map(content, "pipelines").items():
        if isinstance(pipeline, dict):
            yield from _check_pipeline(("pipelines", name), pipeline)
            yield from _check_table_properties(("pipelines", name), pipeline)


def _check_pipeline(path: tuple[str, ...], pipeline: dict[str, Any]) -> Iterator[Finding]:
    sources = [source for source in _SOURCES if source in pipeline]
    if len(sources) > 1:
        yield mistake("both-topics", path, one=sources[0], other=sources[1])
    if not sources:
        yield mistake("no-topic", path)
    is_many = sources in (["topics"], ["topics_regex"])
    table = pipeline.get("table")
    if is_many and isinstance(table, str) and "{topic}" not in table:
        yield mistake("one-table", (*path, "table"))
    for source in ("topic", "topics"):
        if source in pipeline and not pipeline[source]:
            yield mistake("empty-topic", (*path, source))


def _check_table_properties(path: tuple[str, ...], settings: dict[str, Any]) -> Iterator[Finding]:
    properties = _map(settings, "table_properties")
    for key in properties:
        where = (*path, "table_properties", key)
        if key.startswith(PREFIX):
            yield mistake("property-of-commits", where)
        elif key.startswith("commit.retry."):
            yield mistake("property-of-upkeep", where)
        elif wrong := wrong_property(key, {k: str(v) for k, v in properties.items()}):
            yield replace(wrong, path=where)


def _check_spark(spark: dict[str, Any]) -> Iterator[Finding]:
    named = [key for key in _SPARKS if spark.get(key) is not None]
    if len(named) > 1:
        yield mistake("both-sparks", ("spark",), one=named[0], other=named[1])
    if spark.get("ship_python") == "true" and not {"remote", "remote_command"} & set(named):
        yield mistake("nowhere-to-ship", ("spark", "ship_python"))
    for key in _map(spark, "conf"):
        if key in {"spark.master", "spark.remote"}:
            yield mistake("spark-set-elsewhere", ("spark", "conf", key), word=key.removeprefix("spark."))
        elif not key.startswith("spark."):
            yield mistake("not-of-spark", ("spark", "conf", key))


def _check_registries(registries: dict[str, Any]) -> Iterator[Finding]:
    for name in registries:
        path, registry = ("registries", name), _map(registries, name)
        auth = _map(registry, "auth")
        if None not in (auth.get("basic"), auth.get("bearer")):
            yield mistake("both-auths", (*path, "auth"))
        is_glue = registry.get("kind") == RegistryKind.GLUE
        if registry.get("url") is None and not is_glue:
            yield mistake("registry-without-url", (*path, "url"))
        if registry.get("region") is not None and not is_glue:
            yield mistake("region-of-glue", (*path, "region"))
        if registry.get("key") is not None and registry.get("cert") is None:
            yield mistake("key-alone", (*path, "key"))


def _check_login(kafka: dict[str, str]) -> Iterator[Finding]:
    for name in kafka:
        if name == "security.protocol" or name.startswith("sasl."):
            yield mistake("both-logins", ("kafka", name))


def _check_references(content: dict[str, Any]) -> Iterator[Finding]:
    for path, value in _texts_at(_REFERENCES, content):
        wrong = wrong_reference(value)
        if not wrong and path[0] in LISTENERS and value.startswith("$") and "{" not in value:
            wrong = "begins with $ but is not a reference"
        if wrong:
            yield mistake("reference", path, why=wrong)


def _map(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


# What a team file may use of the platform: what the main file lends by name, secrets and hosts too.


# The host as every reader of URLs sees it: no user, no backslash, no reference before the path.
_ORIGIN = re.compile(r"(https?://[A-Za-z0-9.-]+(?::\d+)?)(?:[/?#][^\\\s]*)?")


@dataclass(frozen=True, slots=True)
class Lent:
    """Resources that a team file may use: secret names, hosts as ``[http://]host[:port]``, and others."""

    secrets: frozenset[str] = frozenset()
    webhook_hosts: frozenset[str] = frozenset()
    registries: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()

    @classmethod
    def of(cls, entry: object) -> Lent:
        """Return the resources granted by one entry of ``include``; a plain glob grants none."""
        given = entry if isinstance(entry, Mapping) else {}
        return cls(*(_texts(given.get(each.name)) for each in fields(cls)))

    def __or__(self, other: Lent) -> Lent:
        both = {each.name: getattr(self, each.name) | getattr(other, each.name) for each in fields(self)}
        return Lent(**both)


def check_borrowed(team: Document, lent: Lent) -> Iterator[Finding]:
    """Yield a finding for every registry, source, secret and host that the team file may not use."""
    for path, name in _texts_of(team.content, "(value|key)/registry|mirror/source"):
        kind = "sources" if path[-1] == "source" else "registries"
        if name not in getattr(lent, kind):
            yield _not_lent(team, path, f"uses {name}", f"{kind}: [{name}]")
    for path, webhook in _texts_of(team.content, "notify/(webhook|trouble|secret)"):
        references = REFERENCE.findall(webhook)
        for name in references:
            if name not in lent.secrets:
                yield _not_lent(team, path, f"uses ${{{name}}}", f'secrets: ["{name}"]')
        if path[-1] == "secret" or REFERENCE.fullmatch(webhook):
            continue  # where it leads is the secret's, and so the platform's choice
        origin = _ORIGIN.fullmatch(webhook)
        if origin is None:
            yield mistake("webhook-host", path)
        elif not _is_lent(origin[1].lower(), lent.webhook_hosts):
            host = origin[1].lower().removeprefix("https://")
            yield _not_lent(team, path, f"goes to {host}", f'webhook_hosts: ["{host}"]')


def _not_lent(team: Document, path: Path, use: str, lends: str) -> Finding:
    return mistake("not-lent", path, use=use, file=team.file, lends=lends)


def _is_lent(origin: str, hosts: frozenset[str]) -> bool:
    return _exact(origin) in {_exact(host if "://" in host else f"https://{host}") for host in hosts}


def _exact(origin: str) -> str:
    """Return the origin without its scheme's default port."""
    lower = origin.lower()
    return lower.removesuffix(":443" if lower.startswith("https:") else ":80")


def _texts_of(content: dict[str, Any], keys: str) -> Iterator[tuple[Path, str]]:
    """Yield the texts under keys of this pattern, in defaults and in each pipeline."""
    return _texts_at(rf"(defaults|pipelines/[^/]+)/({keys})", content)


def _texts(value: object) -> frozenset[str]:
    return frozenset(
        each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)
    )


# Secrets that are written out in a configuration file, where whoever reads the file has them.


# Where keys are properties of Kafka, a catalog, the log or Spark. Elsewhere only addresses carry passwords.
_PROPERTIES = (("kafka",), ("catalog",), ("state",), ("spark", "conf"))
_SESSION_SECRET = ("spark", "session_secret")
_TOKENS = tuple((listener, "tokens") for listener in LISTENERS)


def plain_secrets(document: Document) -> Iterator[ConfigProblem]:
    """Yield a note for each secret written in the file, without quoting its value."""
    for path, value in _texts_by_key(document.content, ()):
        if is_plain_secret(_property_of(path), value):
            yield document.locate(mistake("plain-secret", path))


def _property_of(path: Path) -> str:
    if path[0] == "registries":
        return ".".join(path[2:]) if "auth" in path[2:] else ""
    if path[:2] in _TOKENS:
        return "token"
    is_property = path[:-1] in _PROPERTIES or path == _SESSION_SECRET or path[-2:] == ("notify", "secret")
    return path[-1] if is_property else ""


def _texts_at(places: str, content: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the texts whose key path (joined by /) matches the pattern."""
    return (each for each in _texts_by_key(content, ()) if re.fullmatch(places, "/".join(each[0])))


def _texts_by_key(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _texts_by_key(item, (*path, str(key)))
