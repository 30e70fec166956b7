"""``./sluice init``: writes a commented sluice.yaml for the broker's topics; never over an existing file."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cli import output
from cli.commands.config_template import render_config
from spark_jobs.config.build import build_config
from spark_jobs.config.file import DEFAULT_FILE_NAME, ENVIRONMENT_CONFIG, home_folder
from spark_jobs.config.redaction import is_secret_key
from spark_jobs.config.secrets import resolve
from spark_jobs.config.yaml_document import parse_document
from spark_jobs.connections.broker_topics import list_topics
from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import ConfigError, SluiceError


@click.command(name="init")
@click.option("--bootstrap-servers", metavar="HOST:PORT", help="Your broker; without it you are asked.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A librdkafka property; repeat."
)
@click.option("--topic", "topics", multiple=True, help="A topic to drain, without asking the broker; repeat.")
@click.option("--namespace", default="lake", show_default=True, help="Namespace of the tables.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--yes", is_flag=True, help="Ask nothing: the embedded broker unless named, all its topics.")
def command(
    *,
    bootstrap_servers: str | None,
    properties: tuple[str, ...],
    topics: tuple[str, ...],
    namespace: str,
    force: bool,
    yes: bool,
) -> int:
    """Write a commented sluice.yaml and offer the broker's topics."""
    file = Path(os.environ.get(ENVIRONMENT_CONFIG) or DEFAULT_FILE_NAME).absolute()
    if file.exists() and not force:
        raise ConfigError(
            "there is a configuration file already",
            code="config-exists",
            hint="Edit it, name another with --config, or replace it with --force.",
            file=file,
        )
    kafka = _properties(properties)
    if bootstrap_servers is None and not yes and not topics:
        asked = click.prompt("Broker (host:port; empty for the embedded one)", default="", show_default=False)
        bootstrap_servers = asked.strip() or None
    chosen = topics or _choose(_broker_topics(file, bootstrap_servers, kafka), takes_all=yes)
    text = render_config(
        bootstrap_servers=bootstrap_servers, topics=chosen, namespace=namespace, properties=kafka
    )
    _refuse_mistakes(text)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    output.say(f"wrote {file} with {output.count(len(chosen), 'pipeline')}")
    seen = "./sluice preview PIPELINE, " if chosen else ""
    output.say(f"next: ./sluice validate, {seen}./sluice check, then ./sluice up")
    return 0


def _refuse_mistakes(text: str) -> None:
    """Topics, namespace and properties come from the command line: what they make must be valid."""
    document, problems = parse_document(DEFAULT_FILE_NAME, text)
    if document is not None:
        problems += build_config(document, (), home="/", folder="/").problems
    if problems:
        raise ConfigError(
            "these options make a configuration with mistakes:\n" + "\n".join(f"  {p}" for p in problems),
            code="bad-config",
            hint="Nothing was written; correct the options.",
        )


def _properties(given: tuple[str, ...]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint="--property")
        if is_secret_key(key) and "${" not in value:
            raise ConfigError(
                "a secret would be written into the file",
                code="secret-in-file",
                hint=f"Quote a reference: --property '{key}=${{NAME}}' or '{key}=${{file:/path}}'.",
                key=key,
            )
        properties[key] = value
    return properties


def _broker_topics(file: Path, bootstrap_servers: str | None, kafka: dict[str, str]) -> tuple[str, ...]:
    """Topics on offer; none when no broker is named and the embedded one is not up yet."""
    home = str(home_folder(file))
    servers = bootstrap_servers or read_endpoints(home).kafka_bootstrap_servers
    if servers is None:
        output.say("no broker yet: the file has an example instead of your topics")
        return ()

    try:
        topics = list_topics(home, {**resolve(kafka), "bootstrap.servers": servers})
    except SluiceError as error:
        error.hint += " Or name the topics with --topic; then no broker is asked."
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
    """Return the topics that the answer's numbers (from 1) and names mean, in its order."""
    if answer.strip() == "all":
        return topics
    return tuple(dict.fromkeys(_pick(word, topics) for word in answer.replace(",", " ").split()))


def _pick(word: str, topics: tuple[str, ...]) -> str:
    if word in topics:
        return word
    if word.isdecimal() and 0 < int(word) <= len(topics):
        return topics[int(word) - 1]
    raise click.UsageError(f"{word} is neither a topic in the list nor its number")
