"""``init``: write a commented sluice.yaml for the broker's topics, never over one without ``--force``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.commands.config_template import REGISTRY, lines_of, pipeline_names, render_config
from spark_jobs.config.build import build_config
from spark_jobs.config.file import DEFAULT_FILE_NAME, ENVIRONMENT_CONFIG, home_folder, parse_document
from spark_jobs.config.redaction import REFERENCE, is_secret_key
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.broker_topics import list_topics
from spark_jobs.connections.endpoints import embedded_kafka
from spark_jobs.preview.recognition import Use, together
from spark_jobs.protocol.errors import SluiceError, fault

if TYPE_CHECKING:
    from spark_jobs.preview.prospects import Prospect
    from spark_jobs.registry.schema_store import SchemaStore

RECORDS_LOOKED_AT = 1_000
_AUTH = "auth."


@click.command(name="init")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Your broker. Without it, init asks.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A librdkafka property. Repeatable."
)
@click.option(
    "--registry", metavar="URL", help="Your schema registry, used to recognise the format of values and keys."
)
@click.option(
    "--registry-property",
    "registry_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="Registry setting: auth.basic, auth.bearer, ca, cert, key, timeout. Repeatable.",
)
@click.option(
    "--topic", "topics", multiple=True, help="A topic. Its records are read only with --registry. Repeatable."
)
@click.option("--namespace", default="lake", show_default=True, help="Namespace of the tables.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option(
    "--yes", is_flag=True, help="Do not ask. Takes all topics, and the embedded broker unless one is given."
)
def command(
    *,
    bootstrap_servers: str | None,
    properties: tuple[str, ...],
    registry: str | None,
    registry_properties: tuple[str, ...],
    topics: tuple[str, ...],
    namespace: str,
    force: bool,
    yes: bool,
) -> int:
    """Write a commented sluice.yaml with the topics that you choose."""
    file = _new_file(replaces=force)
    kafka = _broker_properties(properties)
    schemas = _registry_settings(registry, registry_properties)
    if bootstrap_servers is None and not yes and not topics:
        asked = click.prompt("Broker (host:port; empty for the embedded one)", default="", show_default=False)
        bootstrap_servers = asked.strip() or None
    broker = {} if topics and not registry else _broker(file, bootstrap_servers, kafka)
    chosen = topics or _choose(_topics_of(broker), takes_all=yes)
    render = partial(
        render_config,
        bootstrap_servers=bootstrap_servers,
        topics=chosen,
        namespace=namespace,
        properties=kafka,
        registry=schemas,
    )
    config = _checked(render())
    seen = _look(broker, chosen, config) if broker else {}
    text = render(seen=seen)
    _checked(text)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    number = len(chosen) - sum(1 for each in seen.values() if each.unreadable)
    output.say(f"wrote {file} with {output.count(number, 'pipeline')}")
    previewed = "./sluice preview PIPELINE, " if number else ""
    output.say(f"next: ./sluice validate, {previewed}./sluice check, then ./sluice up")
    return 0


def _new_file(*, replaces: bool) -> Path:
    file = Path(os.environ.get(ENVIRONMENT_CONFIG) or DEFAULT_FILE_NAME).absolute()
    if file.exists() and not replaces:
        raise fault("config-exists", file=file)
    return file


def _look(broker: Mapping[str, str], topics: tuple[str, ...], config: SluiceConfig) -> dict[str, Prospect]:
    """Print and return what the topics' first records look like; unreadable topics are only reported."""
    from spark_jobs.preview.prospects import prospects

    output.say(f"reading the first records of {output.count(len(topics), 'topic')}")
    names = pipeline_names(topics)
    found: dict[str, Prospect] = {}
    rows = []
    with _registry(config) as registry:
        for topic, seen in prospects(broker, topics, max_records=RECORDS_LOOKED_AT, registry=registry):
            if isinstance(seen, SluiceError):
                rows.append((topic, names[topic], f"could not be read: {seen}"))
                continue
            found[topic] = seen
            rows.append((topic, "-" if seen.unreadable else names[topic], _describe(seen)))
    output.table(("topic", "pipeline", "first records"), sorted(rows))
    return found


@contextmanager
def _registry(config: SluiceConfig) -> Iterator[SchemaStore | None]:
    """Yield the registry, if one is named and answers; its schemas are not kept."""
    if not config.registries:
        yield None
        return
    from spark_jobs.connections.connect import open_registry
    from spark_jobs.storage.create_only import CreateOnlyStore

    with TemporaryDirectory(prefix="sluice-") as folder:
        registry = open_registry(config.registries, CreateOnlyStore(folder, {}), REGISTRY)
        yield registry if _answers(registry) else None


def _answers(registry: SchemaStore) -> bool:
    try:
        output.say(registry.try_out())
    except SluiceError as error:
        output.say(f"the registry is not used: {error.message}")
        return False
    return True


def _describe(seen: Prospect) -> str:
    if seen.unreadable:
        return f"left out: {seen.unreadable}"
    if not seen.records:
        return "empty"
    by = [f"{what} {format_}" for what, format_ in (("keys", seen.key), ("values", seen.value)) if format_]
    counts = (output.count(seen.records, "record"), output.count(len(seen.columns), "column"))
    read = together(seen.found, Use.VALUES, Use.KEYS)
    read.pop("columns", None)
    text = ", ".join((*counts, *by, *lines_of(read)))
    is_more = {each.use for each in seen.found} - {Use.VALUES, Use.KEYS}
    return f"{text}; see the proposals in the file" if is_more else text


def _checked(text: str) -> SluiceConfig:
    """Return the configuration of the text. Raises ``ConfigError`` if the options make it invalid."""
    document, problems = parse_document(DEFAULT_FILE_NAME, text)
    config = None
    if document is not None:
        built = build_config(document, (), home="/", folder="/")
        config, problems = built.config, [*problems, *built.problems]
    if problems or config is None:
        raise fault("bad-config.options", mistakes="\n".join(f"  {p}" for p in problems))
    return config


def _broker(file: Path, bootstrap_servers: str | None, kafka: dict[str, str]) -> dict[str, str]:
    """Return the broker's resolved properties; empty if the embedded broker is not running."""
    ours = (
        {"bootstrap.servers": bootstrap_servers}
        if bootstrap_servers
        else embedded_kafka(str(home_folder(file)))
    )
    if not ours:
        output.say("no broker yet: topics are not read")
        return {}
    return {**resolve(kafka), **ours}


def _topics_of(broker: dict[str, str]) -> tuple[str, ...]:
    """Return the broker's topics without internal ones."""
    if not broker:
        return ()
    try:
        topics = list_topics(broker)
    except SluiceError as error:
        error.hint += " Or name the topics with --topic, which needs no broker."
        raise
    return tuple(topic for topic in topics if not topic.startswith("_"))


def _choose(topics: tuple[str, ...], *, takes_all: bool) -> tuple[str, ...]:
    if takes_all or not topics:
        return topics
    for number, topic in enumerate(topics, start=1):
        output.say(f"{number:>4}  {topic}")
    answer = click.prompt("Topics to drain (numbers or names, separated by spaces; all)", default="all")
    return choose_topics(answer, topics)


def choose_topics(answer: str, topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics that an answer selects by numbers (from 1) or names, in its order."""
    if answer.strip() == "all":
        return topics
    return tuple(dict.fromkeys(_pick(word, topics) for word in answer.replace(",", " ").split()))


def _pick(word: str, topics: tuple[str, ...]) -> str:
    if word in topics:
        return word
    if word.isdecimal() and 0 < int(word) <= len(topics):
        return topics[int(word) - 1]
    raise click.UsageError(f"{word} is neither a topic in the list nor its number")


def _broker_properties(given: tuple[str, ...]) -> dict[str, str]:
    """Return the librdkafka properties of ``--property``. Raises ``ConfigError`` for written secrets."""
    properties = dict(_pairs(given, "--property"))
    for key, value in properties.items():
        if is_secret_key(key) and "${" not in value:
            raise fault("secret-in-file", option="--property", key=key)
    return properties


def _registry_settings(url: str | None, given: tuple[str, ...]) -> dict[str, Any]:
    """Return the registry's settings from the options; empty without any."""
    settings: dict[str, Any] = {"url": url} if url else {}
    for key, value in _pairs(given, "--registry-property"):
        if not key.startswith(_AUTH):
            settings[key] = value
            continue
        # What is written of a password is behind the last colon that is not within a reference.
        if REFERENCE.sub("", value).rpartition(":")[2] or not REFERENCE.search(value):
            raise fault("secret-in-file", option="--registry-property", key=key)
        settings.setdefault("auth", {})[key.removeprefix(_AUTH)] = value
    return settings


def _pairs(given: tuple[str, ...], option: str) -> Iterator[tuple[str, str]]:
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint=option)
        yield key, value
