"""From file models to the effective configuration: defaults, pipelines per topic, clashes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter
from typing import Any

from spark_jobs.config.catalog_rules import name_rule
from spark_jobs.config.columns import from_text
from spark_jobs.config.file_models import WrittenCatalog, WrittenFile, WrittenTeamFile, validate
from spark_jobs.config.iceberg_terms import check_partition_by, check_sort_by
from spark_jobs.config.problems import ConfigProblem, Document, Finding, Path, in_order, mistake
from spark_jobs.config.registry_settings import check_frames
from spark_jobs.config.sections import ALIASES
from spark_jobs.config.settings import (
    DEAD_LETTERS_SUFFIX,
    CatalogSettings,
    PipelineConfig,
    PipelineSettings,
    PipelineTemplate,
    SluiceConfig,
)
from spark_jobs.config.suites import OnFailure, When
from spark_jobs.config.value_format import ValueFormat, check_place
from spark_jobs.config.values import Frozen
from spark_jobs.protocol.work import LAYOUTS, layout_named
from spark_jobs.storage.paths import is_inside

_UNSAID = PipelineSettings()
_STORAGE_PROPERTIES = ("write.data.path", "write.metadata.path")


@dataclass(frozen=True, slots=True)
class ConfigReading:
    """Result of reading; ``problems`` are the main file's. With any, ``config`` is partial and must not run.

    ``notes`` are what it had better say otherwise.
    """

    config: SluiceConfig | None
    problems: tuple[ConfigProblem, ...]
    notes: tuple[ConfigProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Placed:
    """A pipeline or template and its place in a file; ``own`` are its keys without defaults."""

    entry: PipelineConfig | PipelineTemplate
    path: Path
    own: PipelineSettings


def build_config(
    main: Document,
    teams: Sequence[Document],
    *,
    home: str,
    folder: str,
    judge: Callable[[PipelineSettings], Iterable[Finding]] = lambda _: (),
    judge_apart: Callable[[Sequence[Sequence[PipelineSettings]]], Iterable[Iterable[Iterable[Finding]]]]
    | None = None,
) -> ConfigReading:
    """Combine the main file and the team files.

    ``folder`` is the main file's folder (absolute): a relative ``state`` is meant from there. A team file
    with any mistake, or with a pipeline that clashes with one named before, is left out as a whole; its
    mistakes are ``config.problems``. ``judge`` finds what is wrong with a pipeline's expressions,
    ``judge_apart`` with those of each pipeline of each team file, all of them in one call.
    """
    written, problems = validate(main, WrittenFile)
    if written is None:
        return ConfigReading(None, tuple(problems))
    placed = list(_place(main, written, PipelineSettings()))
    problems += _clashes(main, placed, []) + _unreadable(
        main, placed, written, {path: judge(entry) for path, entry in _entries(placed).items()}
    )
    left_out: list[ConfigProblem] = []
    read = [(team, *validate(team, WrittenTeamFile)) for team in teams]
    theirs = [list(_place(team, each, written.defaults)) if each else [] for team, each, _ in read]
    entries = [_entries(found) for found in theirs]
    asked = [list(each.values()) for each in entries]
    judged = judge_apart(asked) if judge_apart else [map(judge, each) for each in asked]
    for (team, _, wrong), found, each, said in zip(read, theirs, entries, judged, strict=True):
        findings = dict(zip(each, said, strict=True))
        mistakes = wrong + _clashes(team, found, placed) + _unreadable(team, found, written, findings)
        left_out += mistakes
        placed += [] if mistakes else found
    config = SluiceConfig(
        home=home,
        state=_absolute(written.state.uri if written.state else f"{home}/log", folder),
        state_properties=_own_properties(written, main),
        kafka={ALIASES.get(name, name): value for name, value in written.kafka.items()},
        kafka_auth=written.kafka_auth,
        catalog=_catalog(written.catalog, home),
        spark=written.spark,
        runs=written.runs,
        registries=written.registries,
        sources=written.sources,
        ui=written.ui.over(written.listeners),
        metrics=written.metrics.over(written.listeners),
        catalog_server=written.catalog_server.over(written.listeners),
        serve=written.serve.over(written.listeners),
        gateway=written.gateway,
        pipelines=tuple(
            each.model_copy(update={"stream": written.gateway.stream_of(each.topic)})
            for each in _pipelines(placed)
        ),
        templates=tuple(p.entry for p in placed if isinstance(p.entry, PipelineTemplate)),
        source=main.file or None,
        problems=tuple(left_out),
    )
    problems += [main.locate(finding) for finding in _check_state(config, main)]
    return ConfigReading(config, in_order(dict.fromkeys(problems)))


def _place(document: Document, written: WrittenTeamFile, outer: PipelineSettings) -> Iterator[_Placed]:
    for name, pipeline in written.pipelines.items():
        layers = (outer, written.defaults, pipeline)
        settings = dict(reduce(_overlay, layers, PipelineSettings()))
        settings["table_schema"] = settings["layout"].schema(settings["table_schema"])
        if settings["value"].format is ValueFormat.CSV:
            settings["columns"] = from_text(settings["columns"])
        path, table, regex = ("pipelines", name), pipeline.table, pipeline.topics_regex
        if regex is not None:
            place: dict[str, Any] = {"file": document.file, "line": document.line_of(path)}
            template = PipelineTemplate(name=name, topics_regex=regex, table=table, **place, **settings)
            yield _Placed(template, path, pipeline)
        for topic in pipeline.topics or () if pipeline.topic is None else (pipeline.topic,):
            own_name = safe_name(topic) if pipeline.topic is None else name
            own = settings_of(settings, topic)
            entry = PipelineConfig(name=own_name, topic=topic, table=table_of(table, topic), **own)
            yield _Placed(entry, path, pipeline)


def _overlay(below: Any, above: Any) -> Any:
    """Return ``below`` overridden by ``above``; maps and sections are merged key by key."""
    if isinstance(above, Frozen) and isinstance(below, Frozen):
        keys = above.model_fields_set & type(below).model_fields.keys()
        return below.model_copy(
            update={key: _overlay(getattr(below, key), getattr(above, key)) for key in keys}
        )
    if isinstance(above, dict):
        return {**below, **above}
    return above


def _entries(placed: list[_Placed]) -> dict[Path, PipelineSettings]:
    """Return the entries by the place where they are written; topics of one entry share settings."""
    return {each.path: each.entry for each in placed}


def _pipelines(placed: list[_Placed]) -> list[PipelineConfig]:
    return [each.entry for each in placed if isinstance(each.entry, PipelineConfig)]


def _clashes(document: Document, placed: list[_Placed], before: list[_Placed]) -> list[ConfigProblem]:
    findings = []
    seen = Claims(_pipelines(before))
    for item in placed:
        if isinstance(item.entry, PipelineTemplate):
            continue  # it clashes once it is expanded
        clash = seen.first_clash(item.entry)
        if (own := _clash_with_itself(item.entry)) is not None:
            findings.append(replace(own, path=(*item.path, *own.path)))
        seen.add(item.entry)
        if clash is not None and item.entry.name == clash.name:
            findings.append(mistake("second-of-the-name", item.path, name=clash.name))
        elif clash is not None:
            shared = min(every_table(item.entry) & every_table(clash))
            is_own = shared in tables_written(item.entry.table)
            path = (*item.path, "table") if is_own else (*item.path, "route", "tables")
            findings.append(
                mistake(
                    "table-of-two" if is_own else "routed-table-of-two", path, table=shared, writer=clash.name
                )
            )
    return [document.locate(finding) for finding in findings]


def _clash_with_itself(entry: PipelineConfig) -> Finding | None:
    """Return a routed table that the pipeline also writes otherwise, or None."""
    beside = {entry.table.lower(): "the pipeline's own table in another spelling"}
    beside |= {entry.dead_letter_table.lower(): "the pipeline's dead-letter table"}
    for value, routed in entry.route.tables.items():
        if routed != entry.table and (otherwise := beside.get(routed.lower())) is not None:
            path = ("route", "tables", value)
            return mistake("routed-to-itself", path, routed=routed, otherwise=otherwise, own=entry.table)
    return None


def _unreadable(
    document: Document,
    placed: list[_Placed],
    main: WrittenFile,
    judged: Mapping[Path, Iterable[Finding]],
) -> list[ConfigProblem]:
    located = [
        (path, finding)
        for path, each in {each.path: each for each in placed}.items()
        for finding in (*_check(each, main), *judged[path])
    ]
    return [document.locate(replace(finding, path=(*path, *finding.path))) for path, finding in located]


def _check(each: _Placed, main: WrittenFile) -> Iterator[Finding]:
    entry, own, layout = each.entry, each.own, each.entry.layout
    if (finding := _check_columns(entry)) is not None:
        yield finding
    if (rule := name_rule(main.catalog.model_extra or {})) is not None:
        tables = (entry.table, *entry.route.tables.values())
        wrong = [name for name in tables if not rule.names.fullmatch(name.replace("{topic}", "topic"))]
        for name in wrong:
            yield mistake("not-of-catalog", ("table",), text=name, whose=rule.catalog, form=rule.form)
    yield from _check_places(each, main)
    for name, hint in layout.not_said.items():
        if getattr(entry, name) != getattr(_UNSAID, name):
            yield mistake("not-said-of", (name,), called=layout.called, how=hint)
    yield from _check_gates(entry)
    for name, section in (("cdc", own.cdc), ("mirror", own.mirror)):
        if section.model_fields_set and name not in layout.sections:
            others = " or ".join(each for each in LAYOUTS if name in layout_named(each).sections)
            yield mistake("of-another-layout", (name,), layout=layout, others=others)
    yield from layout.findings(entry, main.sources)


def _check_places(each: _Placed, main: WrittenFile) -> Iterator[Finding]:
    entry, own = each.entry, each.own
    for part, place, said in (("value", entry.value, own.value), ("key", entry.record_key, own.record_key)):
        finding = check_place(place, main.registries, said.model_fields_set)
        if finding is None and place.format.has_schema and place.registry is not None:
            finding = check_frames(place, main.registries[place.registry], f"registries.{place.registry}")
        if finding is not None:
            yield replace(finding, path=(part, *finding.path))


def _check_columns(entry: PipelineSettings) -> Finding | None:
    types = {name: each.type for name, each in entry.columns.items()}
    for name, each in entry.columns.items() if entry.value.format is ValueFormat.CSV else ():
        if not each.source and each.type != "string":
            return mistake("not-of-text", ("columns", name), type=each.type)
    return check_sort_by(entry.sort_by, types) or check_partition_by(entry.partition_by, types)


def _check_gates(entry: PipelineSettings) -> Iterator[Finding]:
    """Yield settings that conflict with a gate or with ``route``, and missing parts of ``route``."""
    layout = entry.layout
    rejecting = [each.name for each in entry.quality if each.on_failure is OnFailure.DEAD_LETTERS]
    if rejecting and layout.no_row_may_go:
        names, how = ", ".join(rejecting), layout.no_row_may_go
        yield mistake("gate-takes-rows", ("quality",), called=layout.called, gates=names, how=how)
    gates = [each.name for each in entry.quality if each.when is When.GATE]
    if entry.hot is not None and gates:
        yield mistake("hot-with-gate", ("hot",), gates=", ".join(gates))
    elif entry.hot is not None and entry.route != _UNSAID.route:
        yield mistake("hot-with-route", ("hot",))
    if "route" not in layout.not_said and entry.route != _UNSAID.route:
        if entry.route.by is None:
            yield mistake("route-without-by", ("route",))
        elif not entry.route.tables:
            yield mistake("route-without-tables", ("route",))


def _absolute(state: str, folder: str) -> str:
    is_absolute = "://" in state or state.startswith(("/", "file:"))
    return (state if is_absolute else f"{folder}/{state}").rstrip("/")


def _own_properties(written: WrittenFile, main: Document) -> dict[str, str] | None:
    """Return the log's own FileIO properties if ``state`` is a map, even an empty one."""
    is_map = isinstance(main.content.get("state"), dict)
    return dict(written.state.model_extra or {}) if written.state and is_map else None


def _catalog(written: WrittenCatalog, home: str) -> CatalogSettings:
    embedded = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/lake"}
    return CatalogSettings(name=written.name, properties=written.model_extra or embedded)


def _check_state(config: SluiceConfig, main: Document) -> Iterator[Finding]:
    """Return the problem of a log inside a table's location, where orphan removal would delete it."""
    path = ("state",) if "state" in main.content else ("catalog", "warehouse")
    warehouse = config.catalog.properties.get("warehouse", "")
    if is_inside(config.state, warehouse):
        yield mistake("log-in-warehouse", path)
    written: list[PipelineConfig | PipelineTemplate] = [*config.pipelines, *config.templates]
    for pipeline in written:
        asked: dict[tuple[str, ...], str | None] = {("location",): pipeline.location}
        asked |= {
            ("table_properties", key): pipeline.table_properties.get(key) for key in _STORAGE_PROPERTIES
        }
        for key, place in asked.items():
            where = ("pipelines", pipeline.name, *key)
            if place and is_inside(config.state, place):
                yield mistake("log-inside", where)
            elif place and is_inside(place, config.state):
                yield mistake("inside-the-log", where)


# What the pipelines of several topics are called, and which pipelines clash.


_UNSAFE = re.compile(r"[^A-Za-z0-9_]")


class Claims:
    """Pipelines by their names and tables; each name or table belongs to one pipeline."""

    def __init__(self, pipelines: Iterable[PipelineConfig] = ()) -> None:
        self._by_claim: dict[tuple[str, str], tuple[int, PipelineConfig]] = {}
        self._number = 0
        for pipeline in pipelines:
            self.add(pipeline)

    def add(self, pipeline: PipelineConfig) -> None:
        """Add a pipeline; earlier ones keep what they have."""
        self._number += 1
        for claim in _claims(pipeline):
            self._by_claim.setdefault(claim, (self._number, pipeline))

    def first_clash(self, pipeline: PipelineConfig) -> PipelineConfig | None:
        """Return the first pipeline with the same name or table, if any."""
        known = (self._by_claim[claim] for claim in _claims(pipeline) if claim in self._by_claim)
        return min(known, key=itemgetter(0), default=(0, None))[1]


def _claims(pipeline: PipelineConfig) -> list[tuple[str, str]]:
    return [("name", pipeline.name), *(("table", table) for table in every_table(pipeline))]


def every_table(pipeline: PipelineConfig) -> set[str]:
    """Return a pipeline's tables and routed tables in lower case."""
    return tables_written(pipeline.table).union(each.lower() for each in pipeline.routed_tables)


def settings_of(settings: Mapping[str, Any], topic: str) -> dict[str, Any]:
    """Return the settings for one of several topics, with ``{topic}`` replaced in routed tables too."""
    route = settings["route"]
    tables = {value: table_of(table, topic) for value, table in route.tables.items()}
    return {**settings, "route": route.model_copy(update={"tables": tables})}


def safe_name(topic: str) -> str:
    """Return the topic as a valid pipeline name, also used for ``{topic}``."""
    name = _UNSAFE.sub("_", topic)
    return f"_{name}" if name[0].isdigit() else name


def table_of(table: str, topic: str) -> str:
    """Return the table of a topic, with ``{topic}`` replaced by its safe name."""
    return table.replace("{topic}", _UNSAFE.sub("_", topic))


def tables_written(table: str) -> set[str]:
    """Return a pipeline's tables in lower case, because some catalogs fold case."""
    return {table.lower(), table.lower() + DEAD_LETTERS_SUFFIX}
