"""Generator of the configuration reference and docs/sluice.schema.json (``-m docs.pages.configuration``).

A test compares the committed files with its output, so a key cannot change without its documentation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from spark_jobs.checks.registry import CHECKS
from spark_jobs.config.file_models import WrittenCatalog, WrittenFile, WrittenPipeline, WrittenTeamFile
from spark_jobs.config.gateway import GatewaySettings, MemorySettings, SpoolSettings, StreamSettings
from spark_jobs.config.listener import (
    CatalogServerSettings,
    ListenerDefaults,
    MetricsSettings,
    ServeSettings,
    UiSettings,
)
from spark_jobs.config.registry_settings import RegistrySettings
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
from spark_jobs.config.settings import PipelineSettings, RunsSettings, SparkSettings
from spark_jobs.config.suites import CheckSettings, Suite
from spark_jobs.config.value_format import KeySettings, ValueSettings

DOCS = Path(__file__).resolve().parents[2] / "docs"
# Characters of a row from which on it is shown once and referred to afterwards.
_LONG_ROW = 120
_HEADER = "| key | value | default | meaning |\n|---|---|---|---|"
_KINDS_BY_UNIT = {
    "smhd": "duration",
    "KMGT": "size",
    "%": "share: `5%`",
}
_SECTION_KEYS = (
    "kafka",
    "catalog",
    "spark",
    "runs",
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
    "key",
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
    GatewaySettings: ("streams", "spool", "memory"),
}


class _EditorSchema(GenerateJsonSchema):
    """JSON Schema for editors: a key is present or absent, never null."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return {**inner, "default": default} if isinstance(default, str) else inner


def render_schema() -> str:
    """Return the JSON Schema of ``sluice.yaml``; its definition ``WrittenTeamFile`` is for team files."""
    schema = WrittenFile.model_json_schema(schema_generator=_EditorSchema)
    team = WrittenTeamFile.model_json_schema(schema_generator=_EditorSchema)
    team.pop("$defs")
    schema["$defs"]["WrittenTeamFile"] = team
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sluice.yaml"} | {
        key: value for key, value in schema.items() if key != "title"
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def render_config_md() -> str:
    """Return the reference of all keys."""
    parts = [
        _INTRODUCTION,
        "## The file\n\n" + _table(WrittenFile),
        _section("kafka", _KAFKA),
        _section("catalog", _CATALOG, WrittenCatalog),
        _section("spark", SparkSettings.__doc__ or "", SparkSettings),
        _section("runs", RunsSettings.__doc__ or "", RunsSettings),
        _section("registries", _REGISTRIES, RegistrySettings),
        _section("sources", _SOURCES),
        _section("defaults", _DEFAULTS, PipelineSettings),
        _section("value", _VALUE, ValueSettings),
        _section("key", KeySettings.__doc__ or "", KeySettings),
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
        _section("streams", StreamSettings.__doc__ or "", StreamSettings),
        _section("spool", SpoolSettings.__doc__ or "", SpoolSettings),
        _section("memory", MemorySettings.__doc__ or "", MemorySettings),
        _section("pipelines", _PIPELINES, WrittenPipeline, without=PipelineSettings),
        _TEAM_FILES,
        _SECRETS,
        _ENVIRONMENT,
    ]
    return "\n\n".join(_rows_once(parts)) + "\n"


def _rows_once(sections: Iterable[str]) -> Iterator[str]:
    """Yield the sections; a row that an earlier section has too refers to that one."""
    places: dict[str, str] = {}
    for section in sections:
        name, lines = section.partition(":`")[0].removeprefix("## `"), section.split("\n")
        for at, line in enumerate(lines):
            place = places.setdefault(line, name) if line.startswith("| `") else name
            if place != name and len(line) > _LONG_ROW:
                cells = line.split(" | ")
                lines[at] = " | ".join([*cells[:-1], f"As in [`{place}`](#{place}). |"])
        yield "\n".join(lines)


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

Sluice reads `sluice.yaml` in the working directory, the file named by `--config` or `SLUICE_CONFIG`, or the
text in `SLUICE_CONFIG_YAML`. Without any of these it runs the demo's two pipelines with an embedded broker,
an SQLite catalog and a local folder.

`./sluice validate` lists every mistake with its line and key. Unknown and contradictory keys are refused. For
completion in an editor use `docs/sluice.schema.json`. `./sluice init` writes a commented example.

An empty default means that the key is unset. Durations (`30s`, `5m`, `1h`, `1d`) and sizes
(`64MiB`, `1GiB`) have a unit. Values may be quoted or not: `0123` and `on` stay text."""

_KAFKA = """Any librdkafka property under its own name. Consumers and the admin client use the same.
Unknown properties are refused, and names of the Java client are answered with librdkafka's name.

These are fixed, because reading every record once depends on them: `isolation.level`,
`auto.offset.reset`, `check.crcs`, `enable.partition.eof`, `enable.auto.commit`, `enable.auto.offset.store`.
`group.id` is refused too: Sluice joins no consumer group."""

_CATALOG = """`name`, and the properties of the catalog and its FileIO under PyIceberg's names, in one flat
map. They are translated for Spark, whose own belong in `spark.conf` as `spark.sql.catalog.<name>.…`. Without
properties: SQLite in `catalog.db` and the warehouse `lake`, both in the state folder.

| catalog | setting |
|---|---|
| Postgres | `type: sql`, `uri: postgresql://user:${PASSWORD}@host/database`, and `extras: [postgres]` |
| Iceberg REST | `type: rest`, `uri: https://host` |
| Nessie | `type: rest`, `uri: http://nessie:19120/iceberg`; it keeps no history to roll back to |
| Polaris | `type: rest`, `uri: https://host/api/catalog`, `warehouse: NAME`, `scope: PRINCIPAL_ROLE:ALL` |
| AWS Glue | `type: glue`, `client.region`, `warehouse: s3://…`, `extras: [glue]` |

A REST catalog with a login, and tables on S3:

```yaml
catalog:
  type: rest
  uri: https://catalog.example.com
  warehouse: s3://bucket/lake                        # or the server's name of a warehouse
  credential: "${CLIENT_ID}:${CLIENT_SECRET}"        # or token: "${TOKEN}"
  oauth2-server-uri: https://id.example.com/token    # without it: the catalog's own
  s3.endpoint: https://s3.example.com                # MinIO and others, addressed by path; not for AWS
  s3.region: eu-central-1
  s3.access-key-id: "${S3_KEY}"                      # neither key: the SDK's own chain (role, profile)
  s3.secret-access-key: "${S3_SECRET}"
```

A catalog that verifies AWS signatures instead: `rest.sigv4-enabled: true`, `rest.signing-name: NAME`,
`client.region`, `client.access-key-id`, `client.secret-access-key` (or a role), and `extras: [glue]`.

Tables on Google Cloud Storage, `warehouse: gs://BUCKET/lake`:

| login | setting |
|---|---|
| workload identity | none |
| service account | in the environment: `GOOGLE_APPLICATION_CREDENTIALS=/path/key.json` |
| token | `gcs.oauth2.token` |
| HMAC keys | as on S3, `s3.endpoint: https://storage.googleapis.com` |

Tables on Azure, `warehouse: abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/lake`:

| login | setting |
|---|---|
| account key, SAS token | `adls.account-key`, `adls.sas-token` (with `sp=rcwdl`) |
| service principal | environment: `AZURE_TENANT_ID`, `AZURE_CLIENT_ID`, `AZURE_CLIENT_SECRET` |
| workload identity | as Kubernetes sets it |
| managed identity | none; `AZURE_CLIENT_ID` if user-assigned |

While an identity gets no token, Arrow ends the process.

[What is tested](supported-versions.md#catalogs-stores-registries). More properties:
[PyIceberg's configuration](https://py.iceberg.apache.org/configuration/).

A Postgres connection waits 10 s for the server and a minute for an answer, unless the address sets other
times. A pooler that refuses start-up options requires `?options=` in the address.

Expired tokens are renewed, also within a commit and by Spark. Vended credentials are requested for every
batch; if they expire within it, the run fails with `credentials-expired` and the next one continues."""

_VALUE = """Format of the records' values and place of their schemas. Default: JSON objects.

```yaml
registries:
  main: {url: "http://registry.internal:8081"}
pipelines:
  orders: {topic: shop.orders, table: shop.orders, value: {format: avro, registry: main}}
  returns: {topic: shop.returns, table: shop.returns, value: {format: avro, file: schemas/return.avsc}}
  access_log: {topic: edge.log, table: edge.log, value: {format: string}}
```"""
_REGISTRIES = """Schema registries by name:
`main: {url: https://registry:8081, auth: {basic: "${USER}:${PASSWORD}"}}`.

Spark tasks receive no credentials."""

_SOURCES = """Source databases of mirrors by name, for example `shop: "${SHOP_POSTGRES}"` with the value
`postgresql://user:password@host/database`. A pipeline refers to one with `mirror: {source: shop}`. The
address is never shown."""

_DEFAULTS = """Defaults of all pipelines. Precedence: the pipeline, then the defaults of its team file, then
those of the main file. Maps are merged key by key; any other value is replaced."""

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

Names and arguments are those of Great Expectations; expectations that need a database are refused. Unquoted
`5`, `0.5` and `true` are numbers and a boolean. Times are UTC in ISO 8601. Maps, lists and structs are
passed as JSON text. See [Quality and held batches](../runbook.md#quality-and-held-batches) for batches that
fail a gate.

`row_condition: "code = 'a' AND id > 3"` limits an expectation to the rows for which this SQL is true, by
the rules of `filter`. Comparisons with null are not true: `code <> 'a'` excludes nulls, `code IS DISTINCT
FROM 'a'` includes them. Dates and times are compared as UTC times; NaN is null. Conditions in Python, as
earlier versions had them (`code == "a"`, `not …`, `1 <= id < 3`), are refused; `./sluice validate --fix`
rewrites them."""

_PIPELINES = """A pipeline drains one topic into one table. Its name (letters, digits and `_`) is its Dagster
asset key. It accepts every key of `defaults`. No two pipelines may write the same table;
`<table>_dead_letters` belongs to the pipeline too.

With `topics` or `topics_regex`, each topic becomes its own pipeline. Its name is the topic with all but
letters, digits and `_` replaced by `_`.

`topics_regex` is matched against the last list of the broker's topics, which is stored under `state:`.
Dagster's `topics_sensor` refreshes the list twice a minute; `up`, `validate` and `status` refresh it too.
If it changes, the code server is asked to reload (see [Under a Dagster of your
own](../how-to/deploy.md#under-a-dagster-of-your-own)).

A topic that another pipeline names is excluded. If two topics would have the same name or table, one is
used: the topic whose records fill the table, or else the one listed first. `status`, `check` and Dagster's
log name the other."""

_CHECKS = """Severities and limits of the built-in checks: `checks: {warn: [lag, routes], off: [schema],
fresh: 10m}`. A list replaces the inherited or default one. A failed check warns if it is in `warn`;
otherwise it is an error and needs action now. `./sluice checks` prints the results, and Dagster runs the
checks every five minutes. See [the runbook](../runbook.md#when-a-check-fails) for each check.

Checks without a limit:

""" + "\n".join(f"- `{check.name}`: {check.meaning}" for check in CHECKS if not check.limit)

_LISTENERS = """Defaults of `ui`, `metrics`, `catalog_server` and `serve`. A key in the listener's own
section wins. Each listener has its own `tokens`. The gateway is configured only in its own section."""

_TEAM_FILES = """## Team files

A file matched by `include` may hold only `pipelines` and its own `defaults`. What it can and cannot do:
[Serve several teams](../how-to/several-teams.md#what-a-team-can-and-cannot-do).

A team file may use only the resources that the main file names for it:

```yaml
include:
  - files: teams/*.yaml
    secrets: [A_HOOK]
    webhook_hosts: [hooks.example.com]
    registries: [main]
    sources: [shop]
```

- Its `notify` may use these secrets. Its webhooks may call these hosts, over https unless the host is named
  as `http://host`. A webhook that consists of one such secret may call any host.
- Registries and sources are defined in the main file only. Teams never see their credentials.
- Resources that the main file's own `defaults` use need no entry.
- A plain glob grants nothing."""

_SECRETS = """## Secrets

`${NAME}` (environment) and `${file:/path}` (content of a file without its last line break) may be used within
values of these keys:

- `kafka`, `catalog`, `state`, `sources`, `notify` and `tokens`
- `spark.conf`, `spark.remote` and `spark.session_secret`
- `url` and `auth` of a registry

They are resolved when a run starts, and repeatedly by `serve`, `gateway` and `metrics`, so that a rotated
secret file needs no restart. `tokens` are read when the listener starts. A missing secret is an error that
names the key (for `notify`, a warning).

Secrets of eight characters or more are removed from logs, errors, the UI and the transaction log. Spark
servers that Sluice starts receive `spark.conf` in files that only their user can read, never on a command
line. `./sluice validate` warns about secrets written directly in a file."""

_ENVIRONMENT = """## Environment

| variable | meaning |
|---|---|
| `SLUICE_CONFIG` | Configuration file. `--config` overrides it. |
| `SLUICE_CONFIG_YAML` | Text of the configuration. Relative paths start in the working directory. |
| `SLUICE_HOME` | State folder. Default: `.sluice` in the folder of the configuration file. |
| `SLUICE_LOG_LEVEL` | Log level: `debug` (with librdkafka's log), `info`, `warning`, `error`. |
| `SLUICE_NATIVE` | `0`: JSON is decoded without WebAssembly, at less than half the speed. |
| `SLUICE_AUTOMATION` | `stopped`: sensors and schedules are off after loading, for a Dagster of your own. |
| `SLUICE_MAVEN_MIRROR` | URL of a Maven repository for the jars. |
| `XDG_CACHE_HOME` | Folder for downloads, shared by clones. Default: `~/.cache`. |

Single keys have no variables: use `${NAME}`."""


if __name__ == "__main__":
    main()
