"""The configuration's page and schema, from the models: ``python -m docs.pages.configuration`` writes them.

A test holds the committed files to what this gives, so a key cannot change without its documentation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from cli.commands.config_template import render_config
from spark_jobs.checks.registry import CHECKS
from spark_jobs.config.file_models import WrittenCatalog, WrittenFile, WrittenPipeline, WrittenTeamFile
from spark_jobs.config.gateway import GatewaySettings, StreamSettings
from spark_jobs.config.listener import (
    CatalogServerSettings,
    ListenerDefaults,
    MetricsSettings,
    ServeSettings,
    UiSettings,
)
from spark_jobs.config.sections import (
    CdcSettings,
    DeadLetterSettings,
    HotSettings,
    MirrorSettings,
    NotifySettings,
    RouteSettings,
    SchemaSettings,
    UpkeepSettings,
)
from spark_jobs.config.settings import PipelineSettings, RegistrySettings, SparkSettings
from spark_jobs.config.suites import CheckSettings, Suite
from spark_jobs.config.value_format import ValueSettings

DOCS = Path(__file__).resolve().parents[2] / "docs"
_HEADER = "| key | value | default | meaning |\n|---|---|---|---|"
_KINDS_BY_UNIT = {
    "smhd": "duration: `30s`, `5m`, `1h`, `1d`",
    "KMGT": "size: `64MiB`, `1GiB`",
    "%": "share: `5%`",
}
_SECTION_KEYS = (
    "kafka",
    "catalog",
    "spark",
    "registries",
    "sources",
    "listeners",
    "ui",
    "metrics",
    "catalog_server",
    "serve",
    "gateway",
    "defaults",
    "pipelines",
)
_PIPELINE_SECTION_KEYS = (
    "value",
    "cdc",
    "mirror",
    "route",
    "schema",
    "upkeep",
    "dead_letters",
    "quality",
    "checks",
    "notify",
    "hot",
)
_SECTIONS_OF: dict[type[BaseModel], tuple[str, ...]] = {
    WrittenFile: _SECTION_KEYS,
    PipelineSettings: _PIPELINE_SECTION_KEYS,
}


class _EditorSchema(GenerateJsonSchema):
    """JSON Schema as an editor wants it: a key is there or not, never null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return {**inner, "default": default} if isinstance(default, str) else inner


def render_schema() -> str:
    """Return the JSON Schema of ``sluice.yaml``; a team file's is ``WrittenTeamFile`` within it."""
    schema = WrittenFile.model_json_schema(schema_generator=_EditorSchema)
    team = WrittenTeamFile.model_json_schema(schema_generator=_EditorSchema)
    team.pop("$defs")
    schema["$defs"]["WrittenTeamFile"] = team
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sluice.yaml"} | {
        key: value for key, value in schema.items() if key != "title"
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def render_config_md() -> str:
    """Return the reference of every key, with an example that is itself checked by a test."""
    example = render_config(bootstrap_servers="broker-1:9092,broker-2:9092", topics=("orders", "page.views"))
    parts = [
        _INTRODUCTION,
        "## An example\n\nWhat `./sluice init` writes:\n\n```yaml\n" + example + "```",
        "## The file\n\n" + _table(WrittenFile),
        _section("kafka", _KAFKA),
        _section("catalog", _CATALOG, WrittenCatalog),
        _section("spark", SparkSettings.__doc__ or "", SparkSettings),
        _section("registries", _REGISTRIES, RegistrySettings),
        _section("sources", _SOURCES),
        _section("defaults", _DEFAULTS, PipelineSettings),
        _section("value", _VALUE, ValueSettings),
        _section("cdc", CdcSettings.__doc__ or "", CdcSettings),
        _section("mirror", MirrorSettings.__doc__ or "", MirrorSettings),
        _section("route", RouteSettings.__doc__ or "", RouteSettings),
        _section("schema", SchemaSettings.__doc__ or "", SchemaSettings),
        _section("upkeep", UpkeepSettings.__doc__ or "", UpkeepSettings),
        _section("dead_letters", DeadLetterSettings.__doc__ or "", DeadLetterSettings),
        _section("quality", _QUALITY, Suite),
        _section("checks", _CHECKS, CheckSettings),
        _section("notify", NotifySettings.__doc__ or "", NotifySettings),
        _section("hot", HotSettings.__doc__ or "", HotSettings),
        _section("listeners", _LISTENERS, ListenerDefaults),
        *(
            _section(each.section, each.__doc__ or "", each, without=ListenerDefaults)
            for each in (UiSettings, MetricsSettings, CatalogServerSettings, ServeSettings)
        ),
        _section("gateway", GatewaySettings.__doc__ or "", GatewaySettings),
        _section("streams", "A stream of the gateway.", StreamSettings),
        _section("pipelines", _PIPELINES, WrittenPipeline, without=PipelineSettings),
        _TEAM_FILES,
        _SECRETS,
        _ENVIRONMENT,
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write both files."""
    (DOCS / "reference" / "configuration.md").write_text(render_config_md(), encoding="utf-8")
    (DOCS / "sluice.schema.json").write_text(render_schema(), encoding="utf-8")


def _section(
    key: str, text: str, model: type[BaseModel] | None = None, *, without: type[BaseModel] | None = None
) -> str:
    table = f"\n\n{_table(model, without)}" if model else ""
    return f"## `{key}:`\n\n{text}{table}"


def _table(model: type[BaseModel], without: type[BaseModel] | None = None) -> str:
    schema = model.model_json_schema(schema_generator=_EditorSchema)
    required = schema.get("required", [])
    hidden = without.model_json_schema()["properties"] if without else {}
    rows = []
    for name, value in schema["properties"].items():
        if name in hidden:
            continue
        default = (
            "**required**" if name in required else f"`{value['default']}`" if "default" in value else ""
        )
        has_section = name in _SECTIONS_OF.get(model, ())
        kind = f"[section](#{name})" if has_section else _kind(value)
        cells = (f"`{name}`", kind, default, value.get("description", ""))
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join([_HEADER, *rows])


def _kind(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_kind(option) for option in value["anyOf"])
    if "enum" in value:
        return " or ".join(f"`{option}`" for option in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    pattern = value.get("pattern", "")
    for unit, kind in _KINDS_BY_UNIT.items():
        if unit in pattern:
            return kind
    kinds = {"string": "text", "array": "list", "integer": "whole number", "boolean": "`true` or `false`"}
    return kinds.get(value.get("type", ""), "map")


_INTRODUCTION = """# Configuration

<!-- Generated by `python -m docs.pages.configuration` from spark_jobs/config/settings.py;
change it there. -->

`sluice.yaml` in the working directory, or the file that `--config` or `SLUICE_CONFIG` names, or the text in
`SLUICE_CONFIG_YAML`. Without any of these Sluice runs its own broker, an SQLite catalog and a local folder,
with the demo's two pipelines.
`./sluice validate` names every mistake with its line and key; unknown and contradictory keys are refused.
For completion and checks while typing, tell your editor that `docs/sluice.schema.json` is the schema of
the file.

Durations and sizes carry a unit. Every value may be quoted or not: `0123` and `on` stay the text they are."""

_KAFKA = """Any librdkafka property under its own name, for consumers and the admin client alike. An unknown
one is refused, and one of the Java client is told its name here. What decides that every record is read once
has one value: `isolation.level`, `auto.offset.reset`, `check.crcs`, `enable.partition.eof`,
`enable.auto.commit`, `enable.auto.offset.store`; any other is refused. So is a `group.id`: no consumer group
is joined."""

_CATALOG = """Tested are SQLite on a local disk, Postgres, Iceberg's reference REST server and Nessie. Other
servers of Iceberg's REST protocol may work (Polaris, Lakekeeper and others were not tried), and so may Glue,
whose driver is not installed.

Postgres is `type: sql` with `uri: postgresql://user:${PASSWORD}@host/database`, and `extras: [postgres]`.
What the address does not say otherwise, a connection waits 10 s for the server and a minute for an answer; a
pooler that refuses start-up options wants `?options=` in it.

Refused by name are Hive's metastore, which cuts long properties off, and remote signing of S3's requests,
for whose tokens PyIceberg asks once. Credentials that a catalog hands out with a table (vended) are asked for
with every batch; those that end inside one are `credentials-expired`, and the next run goes on.

`name` and the properties of the catalog and its FileIO under PyIceberg's names, flat. For Spark they are
translated to Iceberg-Java's names, so that both see the same tables; what only Spark should know goes to
`spark.conf` as `spark.sql.catalog.<name>.…`. Left out as a whole, or with nothing but a name, the catalog is
SQLite at `catalog.db` and the warehouse the folder `lake`, both in the state folder."""

_VALUE = """What the records' values are written in, and where their schemas are; without it, JSON objects.

```yaml
registries:
  main: {url: "http://registry.internal:8081"}
pipelines:
  orders: {topic: shop.orders, table: shop.orders, value: {format: avro, registry: main}}
  returns: {topic: shop.returns, table: shop.returns, value: {format: avro, file: schemas/return.avsc}}
  access_log: {topic: edge.log, table: edge.log, value: {format: string}}
```"""
_REGISTRIES = """Schema registries that speak Confluent's API, each under a name of its own:
`main: {url: https://registry:8081, auth: {basic: "${USER}:${PASSWORD}"}}`. A schema is asked for once and
kept under `state:` for ever, by name, id and hash: with schemas that are known, drains, replays and audits
run while the registry is away. Only drivers ask; tasks get schemas with their work, and no credentials."""

_SOURCES = """Databases that mirrors are of, each under a name of its own, which a pipeline's
`mirror: {source: shop}` says: `shop: "${SHOP_POSTGRES}"`, which holds
`postgresql://user:password@host/database`. The address is shown nowhere."""

_DEFAULTS = """Settings of every pipeline that does not say otherwise. The order is: the main file's
defaults, a team file's own, the pipeline's. Maps are merged key by key, everything else is replaced."""

_QUALITY = """A list of suites. A pipeline's list replaces that of `defaults`.

```yaml
quality:
  - name: complete_orders
    when: gate
    on_failure: dead_letters
    expectations:
      - expect_column_values_to_not_be_null: {column: id}
      - expect_column_values_to_be_between: {column: price, min_value: 0, max_value: 10000, mostly: 0.99}
```

The names and arguments are Great Expectations' own; those that need a database are refused. In arguments
`5`, `0.5` and `true` are a number, a number and a truth value, unless they are quoted. Times are UTC, written
as in ISO 8601. Maps, lists and structs are handed over as JSON text. What a batch that fails a gate goes
through, and what to do then, is in [Runbook](../runbook.md#quality-and-held-batches).

`row_condition: "code = 'a' AND id > 3"` has an expectation judge the rows alone of which that SQL is true. It
is judged and evaluated as `filter` is. A null meets no comparison: `code IS DISTINCT FROM 'a'` is true of all
that are not `'a'`, nulls among them, `code <> 'a'` of those alone that are something else. Dates and times of
any kind are compared as times in UTC, and NaN is null. Conditions were Python once: those that SQL would read
otherwise (`code == "a"`, `code != 'a'`, `not …`, `1 <= id < 3`) are refused, and `./sluice validate --fix`
writes them anew."""

_PIPELINES = """A pipeline is one topic into one table. Its name becomes a Dagster asset key; letters,
digits and `_`. Every key of `defaults` may stand here too. With `topics` or `topics_regex` each topic
becomes a pipeline of its own, named after the topic with everything but letters, digits and `_` replaced
by `_`.

`topics_regex` is matched against the broker's topics as last listed, because loading a configuration asks no
broker. Dagster's `topics_sensor` lists them twice a minute (`./sluice up`, `validate` and `status` do too)
and keeps the list under `state:`, where every machine finds it. When it differs the code server is asked to
load again: docs/how-to/deploy.md says what that takes under a Dagster of your own. A topic that a pipeline of
its own names is left to that pipeline. Of two that would have one name or table the one keeps it whose
records fill the table, else who was listed before; the other is left out, and `status`, `check` and Dagster's
log name it.

Two pipelines never write one table; `<table>_dead_letters` counts as the pipeline's too."""

_CHECKS = """Which of the built-in checks only warn, which are off, and limits other than their own:
`checks: {warn: [lag, routes], off: [schema], fresh: 10m}`. A list takes the place of that below it, `warn` of
its default too; what neither has is an error, which wants a person now. `./sluice checks` prints them,
Dagster runs them every five minutes, and docs/runbook.md says for each what to do when it fails.

Without a limit:
""" + "\n".join(f"- `{check.name}`: {check.meaning}" for check in CHECKS if not check.limit)

_LISTENERS = """What `ui`, `metrics`, `catalog_server` and `serve` have alike. Each may say any of these keys
in its own section, which then takes the place of what stands here. `tokens` are each listener's own: who
may read metrics is not who may start runs. The gateway, which is for clients anywhere, has its own keys."""

_TEAM_FILES = """## Team files

Each file that `include` finds holds `pipelines` and, if wanted, `defaults` of its own, nothing else. A
file with a mistake, or with a pipeline or table that another file named before it has, is left out as a
whole; all other files' pipelines go on. `./sluice validate` and `status` show what was left out and why.

A team file gets only what the main file lends it:
`include: [{files: teams/*.yaml, secrets: [A_HOOK], webhook_hosts: [hooks.example.com], registries: [main],
sources: [shop]}]`. Its `notify` may name those secrets, its webhooks go to those hosts, by https unless the
host is lent as `http://host`; a webhook that is one lent secret goes where that says. Registries and sources
stand in the main file alone; a team's pipelines may name those that are lent, none learns their credentials.
What the main file's own `defaults` name needs no lending. A plain glob lends nothing.

Nor can it hold others up: its expressions are bound in a process of their own, without evaluating constants,
and a file whose expressions take more than half a second is left out by name."""

_SECRETS = """## Secrets

`${NAME}` (environment) and `${file:/path}` (the file's content without its last line break) may stand
anywhere inside a value under `kafka`, `catalog`, `state` and `spark.conf`, in `spark.remote` and
`spark.session_secret`, in `sources`, in `notify`, in a registry's `url` and `auth`, and in `tokens`
(which are read when the listener starts).
They are read when a run starts, and again and again by `serve`, `gateway` and `metrics`, so a secret that is
rotated in its file needs no restart, and values of eight characters or more are kept out of logs,
errors, the UI and the transaction log. One that is not there is an error that names the key (of
`notify` a warning).

Spark that Sluice starts is given `spark.conf` in files that only its user reads, never on a command line. A
secret that is written out in a file works as well; `./sluice validate` notes its key and line."""

_ENVIRONMENT = """## Environment

| variable | meaning |
|---|---|
| `SLUICE_CONFIG` | The configuration file; `--config` wins. |
| `SLUICE_CONFIG_YAML` | The file's text itself; its relative paths begin in the working directory. |
| `SLUICE_HOME` | The state folder instead of `.sluice` beside the configuration file. |
| `SLUICE_LOG_LEVEL` | What is told on the way: `debug` (librdkafka's log too), `info`, `warning`, `error`. |
| `SLUICE_AUTOMATION` | `stopped`: sensors and schedules are loaded switched off, for a Dagster of your own. |
| `SLUICE_MAVEN_MIRROR` | The address of a Maven repository to take the jars from. |
| `XDG_CACHE_HOME` | Where downloads are kept, shared between clones; `~/.cache` by default. |

There is no variable for a single key: a configuration that is put together from a file and variables can be
read nowhere as a whole, and `validate` could name no line. What differs between places is a `${NAME}`."""


if __name__ == "__main__":
    main()
