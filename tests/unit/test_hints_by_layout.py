"""No hint names a key that ``validate`` refuses of a pipeline that can show it, nor an act it has not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from docs.pages.errors import ROOT, entries
from spark_jobs.config.build import build_config
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.file_models import WrittenFile, WrittenPipeline
from spark_jobs.config.problems import Document
from spark_jobs.config.registry_settings import FRAMINGS, RegistryKind
from spark_jobs.protocol.work import LAYOUTS, layout_named

ROOMS = ("cli", "servers", "orchestration", "assets", "resources", "gateway", "serving", "spark_jobs")
# Texts of the reference say of each key what it is for, and of which layouts.
REFERENCE = {"settings", "sections", "value_format", "listener", "gateway", "suites", "kafka_keys"}
OF_FILE, OF_PIPELINE = (
    {field.alias or name for name, field in model.model_fields.items()}
    - {"version", "topic", "topics", "topics_regex"}
    for model in (WrittenFile, WrittenPipeline)
)

# A key with its value, in backticks or behind a verb; one that is only named, in backticks or with a dot.
KEYED = re.compile(
    r"`(?P<quoted>[a-z_]+): (?P<value>[^`]+)`"
    r"|\b(?:[Ww]rite|[Aa]dd|[Ss]ay|[Ss]et) (?!key: value)(?P<key>[a-z_]+): (?P<what>\{.*\}|\[[^\]]*\]|[\w-]+)"
)
ALONE = re.compile(
    r"`(?P<quoted>[a-z_]+(?:\.[a-z_]+)*):?`"
    rf"|(?<![\w/-])(?P<dotted>(?:{'|'.join(OF_FILE | OF_PIPELINE)})(?:\.[a-z_]+)+)"
)
# What stands where a text varies, by the last word of the variable's name; all else is `a`.
FILLED = {"section": "value", "to": "long", "type_name!r": "long", "kind": "timestamptz", "form": "epoch_ms"}
FILLED |= {
    "others": "mirror",
    "NAME": "main",
    "TIME": "latest",
    "check": "lag",
    "extra": "msk",
    "routed": "l.b",
    "known": "none",
}
VARIES = re.compile(r"\{\{|\}\}|\{(?:\w+\.)*(\w+)[^{}]*\}")

# Words in backticks that are no keys of the configuration, and keys that are named without their section.
OTHERS = {
    "after",
    "at",
    "before",
    "credential",
    "exact",
    "force",
    "op",
    "query",
    "rest",
    "sql",
    "tags",
    "uri",
    "url",
    "type",
}
OTHERS |= {"catalog.db", "column.exclude.list", "key.converter", "message.key.columns", "serve.log"}
OTHERS |= {"value.converter.schemas.enable", "defaults.conf", "launcher", "_kafka_key", "fit", "string"}
OTHERS |= {"format", "kind", "on_failure", "spark.a", "when"}  # below what the mistake stands in
WITHIN = {"listen": "serve.listen", "raw": "value.format", "spool.path": "gateway.spool.path"}
WITHIN |= {"subject": "value.subject", "version": "value.version", "tokens": "gateway.tokens"}
WITHIN |= {"registry": "value.registry", "framing": "value.framing", "tables": "route.tables"}
WITHIN |= {"bad-config.csv-columns columns": "value.columns"}
WITHIN |= {"tls.cert": "serve.tls.cert", "tls.key": "serve.tls.key", "warn": "checks.warn"}
# What may be written for one that is only named.
VALUES: dict[str, Any] = yaml.safe_load("""
checks: {warn: [lag]}
checks.warn: [lag]
columns: {a: long}
dead_letters.columns: {day: {type: date, sql: CAST(_kafka_timestamp AS DATE)}}
dead_letters.stop_above: 5%
filter: id > 1
freshness: 5m
hot: true
hot.memory: 1GB
key: {format: raw}
layout: flat
location: s3://b/l
max_batch_records: 1000
notify: {webhook: "https://h/a"}
quality: [{name: g, when: gate, expectations: [{expect_column_to_exist: {column: a}}]}]
route: {by: kind, tables: {a: l.c}}
route.by: kind
route.tables: {a: l.c}
schedule: 0 2 * * *
schema.max_columns: 10
schema.new_fields: ignore
start: latest
table: l.b
value: {format: avro, registry: main}
value.file: a.avsc
value.format: avro
value.message: A
value.subject: s
value.version: 3
""")
# Which layouts show one, where not all can: those of which the key may be said, those that have the act, or
# by their names.
SHOWN = {
    **dict.fromkeys(("another-source", "another-table", "bad-change", "bad-change.rebuild"), "mirror"),
    **dict.fromkeys(
        (f"cannot-retype.{why}" for why in ("partitioned", "unfinished", "was-partitioned")), "retype"
    ),
    "bad-config.csv-columns": "archive flat",
    "bad-config.not-hot": "hot",
    "bad-config.route-without-tables": "route",
    "change-not-told-yet": "mirror",
    "cli/commands/retype.py": "retype",
    "column-clash.key": "flat",
    "column-clash.of-mirror": "mirror",
    "column-clash.of-rows": "retype",
    "column-clash.partitioning columns": "partition_by",
    "first-batch-unreadable": "columns",
    "hot-not-configured": "hot",
    "hot-not-configured.never": "route",
    "hot-not-configured.of-this": "route",
    "hot-not-configured.serve": "hot",
    **dict.fromkeys(
        ("mirror-key-changed", "mirror-key-spelling", "mirror-key-twice", "mirror-replay"), "mirror"
    ),
    "no-source": "mirror",
    "no-such-message": "archive flat",
    "not-a-mirror": "archive changes flat",
    "not-served": "hot",
    **dict.fromkeys(("partitions-changed", "partitions-changed.unordered"), "mirror"),
    "rebuild-without-snapshot": "mirror",
    "redrive-archive": "archive",
    "redriven-since": "redrive",
    "replay-would-lose": "replay",
    "retyped-since": "retype",
    "schema-incompatible": "flat",
    "schema-incompatible.key": "mirror",
    "schema-incompatible.mirror": "mirror",
    "schema-unreadable.debezium": "changes mirror",
    "spark_jobs/checks/built_in/routes.py": "route",
    "spark_jobs/config/iceberg_terms.py": "columns",
    "spark_jobs/config/file_models.py filter": "filter",  # as other tools call it
    "spark_jobs/drain/mirror_fold.py": "mirror",
    "spark_jobs/formats/avro/types.py": "flat",  # it says so
    "spark_jobs/layouts/archive.py": "archive",
    "spark_jobs/layouts/mirror.py": "mirror",
    "spark_jobs/records/appearance.py cdc": "changes mirror",
    "spark_jobs/schema/declared.py": "columns",
    "source-restarted": "mirror",
    "spark_jobs/values/fitting.py": "columns",
    "too-far-behind": "hot",
    "truncate-without-position": "mirror",
}
# What a pipeline may have beside it, and one of which is enough to make it right.
BY_ID = {"format": "avro", "registry": "main"}
BY_VERSION = {**BY_ID, "framing": "none"}
IN_FILE = {"format": "avro", "file": "a.avsc"}
OF_KINDS = [{**BY_ID, "registry": str(kind), "framing": str(fits[0])} for kind, fits in FRAMINGS.items()]
BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"value": BY_ID, "key": BY_ID},
    {"value": BY_ID},
    {"value": BY_VERSION, "key": BY_VERSION},
    *({"value": each, "key": each} for each in OF_KINDS),
    {"value": {"format": "protobuf", "file": "a.proto"}},
    {"value": IN_FILE, "key": IN_FILE},
    {"value": {"format": "csv"}},
    {"route": {"by": "kind", "tables": {"a": "l.c"}}},
)


def _literals(path: Path) -> Iterator[str]:
    """Every text of a module but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    passed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
            yield "".join(
                str(part.value)
                if isinstance(part, ast.Constant)
                else FILLED.get(ast.unparse(part)[1:-1].rpartition(".")[2], "a")
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.value


def _filled(varies: re.Match[str]) -> str:
    return FILLED.get(varies[1], "a") if varies[1] else varies[0][0]


class Hinted(NamedTuple):
    """A key that a text names, by the error's code or by its file: with its value, and another layout's."""

    where: str
    key: str
    value: Any
    layout: str | None


@cache
def _hints() -> list[Hinted]:
    """Every key that a hint of the catalogue or another text of the product names."""
    texts = [(code, VARIES.sub(_filled, entry["hint"])) for code, entry in entries().items()]
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.parent.name != "config" or path.stem not in REFERENCE:
                where = str(path.relative_to(ROOT))
                texts += [(where, text) for text in _literals(path) if " " in text]
    hints = []
    for where, text in texts:
        keys = [*_keys(where, text)]
        layout = next((value for key, value in keys if key == "layout"), None)
        hints += [Hinted(where, key, value, layout) for key, value in keys]
    return hints


def _keys(where: str, text: str) -> Iterator[tuple[str, Any]]:
    text = re.sub(r"\b(NAME|TIME)\b", lambda found: FILLED[found[0]], text)
    for found in KEYED.finditer(text):
        value = _as_written(found["value"] or found["what"])
        name, key = (found["quoted"] or found["key"]), [*value] if isinstance(value, dict) else []
        is_open = key and value[key[0]] == "…"
        yield (
            (f"{name}.{key[0]}", None)
            if is_open
            else (WITHIN.get(f"{where} {name}", WITHIN.get(name, name)), value)
        )
    for found in ALONE.finditer(KEYED.sub("", text)):
        key = found["quoted"] or found["dotted"]
        yield WITHIN.get(key, key), "raw" if key == "raw" else None


def _as_written(text: str) -> Any:
    return yaml.load(text, yaml.BaseLoader)  # noqa: S506  (it makes nothing but texts)


def _problems(settings: Mapping[str, Any], **of_file: Any) -> list[str]:
    """What ``validate`` says of a pipeline with these settings."""
    pipeline = {"topic": "t", "table": "l.a", **settings}
    content = {
        "version": "1",
        "registries": {kind: {"kind": kind, "url": "http://r:1"} for kind in map(str, RegistryKind)}
        | {"main": {"url": "http://r:1"}},
        "sources": {"shop": "${SHOP}"},
        "pipelines": {"a": pipeline},
        **of_file,
    }
    document = Document("sluice.yaml", _as_written(yaml.safe_dump(content)))
    read = build_config(document, (), home="/home", folder="/folder", judge=judge_expressions)
    return [str(problem) for problem in read.problems]


def _nested(key: str, value: Any) -> dict[str, Any]:
    return dict(reduce(lambda inner, part: {part: inner}, reversed(key.split(".")), value))


def _with(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    both = {**settings, **more}
    for name in settings.keys() & more.keys():
        if isinstance(settings[name], dict) and isinstance(more[name], dict):
            both[name] = _with(settings[name], more[name])
    return {name: value for name, value in both.items() if value is not None}


def _can_show(layout: str, where: str, key: str) -> bool:
    whose = SHOWN.get(f"{where} {key}", SHOWN.get(where, layout))
    own, sections = layout_named(layout), {each for name in LAYOUTS for each in layout_named(name).sections}
    if set(LAYOUTS).issuperset(whose.split()):
        return layout in whose.split()
    if whose in OF_PIPELINE:
        return whose not in own.not_said and (whose not in sections or whose in own.sections)
    return whose not in own.refused


@pytest.mark.parametrize("layout", LAYOUTS)
def test_validate_takes_what_hints_say(layout: str) -> None:
    """Of each layout that can show it, alone or beside what it is for."""
    asked, refused = 0, []
    for where, key, value, other in _hints():
        if key.partition(".")[0] in OF_PIPELINE and key not in OTHERS and _can_show(layout, where, key):
            if value is None and key not in VALUES and "/" in where:
                continue  # a name of something else, in code
            hinted = _nested(key, VALUES[key] if value is None else value)
            asked += 1
            tried = (_problems(_with({"layout": other or layout, **beside}, hinted)) for beside in BESIDE)
            if all(tried):
                refused.append((where, hinted))
    assert not refused
    assert asked > 40


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_hint_names_an_act_that_the_layout_refuses(layout: str) -> None:
    """Where the act depends on the layout its word is asked, as for the command that makes rows anew."""
    refused = [
        (code, act)
        for code, entry in entries().items()
        for act in re.findall(r"\./sluice (\w+)", entry["hint"])
        if act in layout_named(layout).refused and _can_show(layout, code, "")
    ]
    assert not refused


def test_every_key_that_a_hint_of_the_catalogue_names_is_one() -> None:
    """Also those of the whole file; words that are none are known here, and nothing is excused in vain."""
    named = {hint.key for hint in _hints() if "/" not in hint.where}
    for key in sorted(named - OTHERS - {"a"}):
        of_file = {} if key.partition(".")[0] in OF_PIPELINE else _nested(key, "a")
        wrong = [problem for problem in _problems({}, **of_file) if "is not a key" in problem]
        assert not wrong, key
        assert key.partition(".")[0] in OF_FILE | OF_PIPELINE, key
    places = {place for hint in _hints() for place in (hint.where, f"{hint.where} {hint.key}")}
    assert SHOWN.keys() <= {*places, *entries()}
