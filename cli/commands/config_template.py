"""Text of a new ``sluice.yaml``: short, commented and valid."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from spark_jobs.config.build import safe_name, tables_written
from spark_jobs.preview.recognition import Recognized, Use, together
from spark_jobs.protocol.texts import count

if TYPE_CHECKING:
    from spark_jobs.preview.prospects import Prospect

REGISTRY = "main"
_PART = re.compile(r"^\{(kafka|registries|pipelines)\}$", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_./${}@-]*(:\d+)?")


def render_config(
    *,
    bootstrap_servers: str | None,
    topics: Iterable[str],
    namespace: str = "lake",
    properties: Mapping[str, str] | None = None,
    registry: Mapping[str, Any] | None = None,
    seen: Mapping[str, Prospect] | None = None,
) -> str:
    """Return a configuration for these topics; without ``bootstrap_servers``, for the embedded broker.

    Proposals for a topic in ``seen`` are added under its pipeline as comments; an unreadable topic becomes a
    comment with the reason. ``registry`` are the settings of the registry of its formats.
    """
    kafka = {**({"bootstrap.servers": bootstrap_servers} if bootstrap_servers else {}), **(properties or {})}
    lines = [line for lines in _pipelines(pipeline_names(topics), namespace, seen or {}) for line in lines]
    parts = {"kafka": _kafka(kafka), "registries": _registries(registry or {}), "pipelines": "\n".join(lines)}
    template = Path(__file__).with_suffix(".yaml").read_text("utf-8")
    return _PART.sub(lambda found: parts[found[1]], template)


def pipeline_names(topics: Iterable[str]) -> dict[str, str]:
    """Return a name for each topic's pipeline and table, unique regardless of case.

    Topics with equal short names (``a-b``, ``a.b``) get their signs in words: ``a_dash_b``, ``a_dot_b``.
    """
    short = {topic: safe_name(topic) for topic in topics}
    uses = Counter(name.lower() for name in short.values())
    names: dict[str, str] = {}
    taken: set[str] = set()
    for topic, name in short.items():
        spelled_out = topic.replace("-", "_dash_").replace(".", "_dot_")
        spelled = name if uses[name.lower()] == 1 else safe_name(spelled_out)
        tries = (spelled, *(f"{spelled}_{number}" for number in range(2, len(short) + 3)))
        names[topic] = next(each for each in tries if not taken & tables_written(each))
        taken |= tables_written(names[topic])
    return names


def lines_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the YAML lines of these settings, for use under a pipeline's name."""
    for name, value in settings.items():
        if name != "columns":
            yield f"{name}: {_flow(value)}"
            continue
        yield "columns:"
        yield from (f"  {_flow(column)}: {_flow(kind)}" for column, kind in value.items())


def proposals(found: Sequence[Recognized]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield reasons and YAML lines for each group of settings that belong together."""
    beside = [each for each in found if each.use is not Use.INSTEAD]
    for group in (beside, *([each] for each in found if each.use is Use.INSTEAD)):
        if group:
            yield [each.description for each in group if each.description], [*lines_of(together(group, *Use))]


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_flow(name)}: {_flow(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if value is True:
        return "true"
    is_word = re.fullmatch(r"[A-Za-z_]\w*(\(\w+\))?", value, re.ASCII)
    # A field may be called `null`, or `no`.
    is_plain = is_word and yaml.safe_load(value) == value
    return value if is_plain else _printable(json.dumps(value, ensure_ascii=False))


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)


def _kafka(properties: Mapping[str, str]) -> str:
    lines = [f"  {key}: {_scalar(value)}" for key, value in properties.items()]
    return "\n".join(["kafka:", *lines] if lines else ["# kafka:", "#   bootstrap.servers: localhost:9092"])


def _registries(settings: Mapping[str, Any]) -> str:
    if not settings:
        return "# registries: {main: {url: http://localhost:8081}}"
    return str(
        yaml.safe_dump({"registries": {REGISTRY: settings}}, sort_keys=False, width=sys.maxsize)
    ).rstrip()


def _pipelines(names: Mapping[str, str], namespace: str, seen: Mapping[str, Prospect]) -> Iterator[list[str]]:
    yield ["pipelines:"]
    for topic, name in names.items():
        prospect = seen.get(topic)
        if prospect is not None and prospect.unreadable:
            yield [f"  # Topic {topic} is left out: {prospect.unreadable}. See docs/reference/formats.md."]
            continue
        yield [f"  {name}:", f"    topic: {_scalar(topic)}", f"    table: {namespace}.{name}"]
        if prospect is not None:
            yield list(_recognized(prospect))
    if not names:
        yield ["  # orders:", "  #   topic: orders", f"  #   table: {namespace}.orders"]


def _recognized(prospect: Prospect) -> Iterator[str]:
    """Yield the required settings of the records and, as comments, further proposals."""
    needed = [each for each in prospect.found if each.use in (Use.VALUES, Use.KEYS)]
    settings = together(needed, *Use)
    if prospect.value is not None:
        settings["value"] = {"format": prospect.value.value, "registry": REGISTRY}
    if prospect.key is not None:
        is_taken = "key" in prospect.columns and not prospect.are_changes
        place = {"format": prospect.key.value, "registry": REGISTRY}
        settings["key"] = place | ({"as": "record_key"} if is_taken else {})
    yield from (f"    # {_printable(each.description)}." for each in needed if each.description)
    yield from (f"    {line}" for line in lines_of(settings))
    by = f"Proposed from its first {count(prospect.records, 'record')}; easier before the first batch"
    for number, (reasons, lines) in enumerate(
        proposals([each for each in prospect.found if each not in needed])
    ):
        yield f"    # {'Or instead' if number else by}:"
        yield from (f"    # {_printable(sentence)}" for sentence in reasons)
        yield from (f"#     {line}" for line in lines)


def _scalar(value: str) -> str:
    is_plain = _PLAIN.fullmatch(value) and value.lower() != "null"
    return value if is_plain else json.dumps(value, ensure_ascii=False)
