"""Models of ``sluice.yaml`` and team files, and their validation. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from spark_jobs.config import values
from spark_jobs.config.contradictions import LISTENERS, check_main_file, check_team_file
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.listener import (
    CatalogServerSettings,
    ListenerDefaults,
    MetricsSettings,
    ServeSettings,
    UiSettings,
)
from spark_jobs.config.problems import (
    ConfigProblem,
    Document,
    Finding,
    Path,
    UnreadableValueError,
    closest,
    did_you_mean,
    in_order,
    mistake,
)
from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.config.sections import KafkaAuth
from spark_jobs.config.settings import PipelineSettings, RunsSettings, SparkSettings
from spark_jobs.config.values import Frozen, key
from spark_jobs.protocol.errors import SluiceError, fault


class Extra(StrEnum):
    """Optional packages; each has a lock file in bootstrap."""

    POSTGRES = "postgres"
    MSK = "msk"
    GLUE = "glue"


class WrittenPipeline(PipelineSettings):
    """A pipeline entry: one topic, a list of topics, or all matching topics; each becomes one table."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("topic", "topics", "topics_regex")]}
    )

    topic: values.Topic | None = key(
        None, "The topic. Set exactly one of `topic`, `topics` and `topics_regex`."
    )
    topics: tuple[values.Topic, ...] | None = key(
        None, "Several topics, one pipeline each. `table` must contain `{topic}`."
    )
    topics_regex: values.Regex | None = key(
        None,
        "RE2 regular expression for whole topic names, never internal ones (`__…`). Otherwise as `topics`.",
    )
    table: values.Table = Field(
        description="`namespace.table`; `{topic}` is the topic, with `_` for all but letters and digits."
    )


class WrittenCatalog(Frozen):
    """The Iceberg catalog, under PyIceberg's property names. Default: SQLite and a local folder."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    name: values.PipelineName = key("sluice", "Name of the catalog. SQL catalogs store it with every table.")


class WrittenState(Frozen):
    """Location of the transaction log and FileIO properties of its own."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    uri: str = Field(description="Location of the transaction log, a path or URI.")


class WrittenTeamFile(Frozen):
    """A team file: pipelines of one team and their defaults."""

    defaults: PipelineSettings = key(PipelineSettings(), "Defaults of all pipelines in this file.")
    pipelines: dict[values.PipelineName, WrittenPipeline] = Field(
        default_factory=dict, description="Pipelines by name."
    )


class WrittenInclude(Frozen):
    """Team files and the shared resources that they may use."""

    files: str = Field(description="Glob of team files, relative to this file.")
    secrets: values.OneOrMany[str] = key(
        (), "Secrets that their `notify` may use as `${…}`: `A_HOOK`, `file:/run/secrets/a`."
    )
    webhook_hosts: values.OneOrMany[str] = key(
        (), "Hosts that their webhooks may call: `host[:port]` for https, or `http://host[:port]`."
    )
    registries: values.OneOrMany[values.RegistryName] = key(
        (), "Names under `registries` that their pipelines may use."
    )
    sources: values.OneOrMany[values.SourceName] = key(
        (), "Names under `sources` that their mirrors may use."
    )


Includes = Annotated[
    tuple[str | WrittenInclude, ...],
    BeforeValidator(
        lambda value: value if isinstance(value, list) else [value],
        json_schema_input_type=str | tuple[str | WrittenInclude, ...],
    ),
]


State = Annotated[
    WrittenState,
    BeforeValidator(
        lambda value: {"uri": value} if isinstance(value, str) else value,
        json_schema_input_type=str | WrittenState,
    ),
]


class WrittenFile(WrittenTeamFile):
    """The main file, `sluice.yaml`."""

    version: values.Version = Field(description="Version of the file format.")
    kafka: values.Properties = Field(
        default_factory=dict,
        description="Properties of librdkafka. Without `bootstrap.servers`, the embedded broker is used.",
    )
    kafka_auth: KafkaAuth = key(
        KafkaAuth(),
        "Authentication that librdkafka properties cannot express. `aws_msk_iam: {region: eu-central-1}`: IAM"
        " authentication of Amazon MSK; requires `extras: [msk]`.",
    )
    catalog: WrittenCatalog = key(
        WrittenCatalog(name="sluice"),
        "`name` and properties of the catalog and its FileIO, under PyIceberg's names.",
    )
    state: State | None = key(
        None,
        "Location of the transaction log and of stored schemas: a path or URI that PyIceberg can write, not"
        " inside the warehouse. If unset, `log` in the state folder. A map has FileIO properties of its own,"
        " instead of the catalog's: `{uri: s3://bucket/log, s3.access-key-id: …}`.",
    )
    extras: values.OneOrMany[Annotated[Extra, values.choice(Extra)]] = key(
        (),
        "Optional packages that `./sluice` installs at locked versions: `postgres` for a catalog in Postgres,"
        " `glue` for AWS Glue, `msk` for Amazon MSK with IAM.",
    )
    spark: SparkSettings = key(SparkSettings(), "Where Spark tasks run.")
    runs: RunsSettings = key(RunsSettings(), "Dagster's runs.")
    registries: dict[values.RegistryName, RegistrySettings] = Field(
        default_factory=dict, description="Schema registries by name."
    )
    sources: dict[values.SourceName, values.SourceUrl] = Field(
        default_factory=dict,
        description="Source databases of mirrors by name.",
    )
    listeners: ListenerDefaults = key(
        ListenerDefaults(),
        "Defaults of `ui`, `metrics`, `catalog_server` and `serve`: `hosts`, `origins`, `tls`.",
    )
    ui: UiSettings = key(UiSettings(), "Address and tokens of Dagster's UI.")
    metrics: MetricsSettings = key(MetricsSettings(), "Address and tokens of the Prometheus metrics.")
    catalog_server: CatalogServerSettings = key(
        CatalogServerSettings(), "Address and tokens of the read-only catalog for other engines."
    )
    serve: ServeSettings = key(ServeSettings(), "Address, tokens and limits of the query server.")
    gateway: GatewaySettings = key(
        GatewaySettings(), "Streams, tokens and limits of the gateway for clients without Kafka."
    )
    include: Includes = key(
        (), "Team files: globs relative to this file, or maps with `files` and the resources they may use."
    )


# From a parsed file to its model, with every mistake as a line and a key instead of an exception.


_Model = TypeVar("_Model", bound=WrittenTeamFile)

# Told of one file: more is one mistake many times over, and what each meant takes a millisecond to find.
MOST_MISTAKES = 100
_WANTED = {
    "string_type": "must be text",
    "dict_type": "must be a map of key: value",
    "model_type": "must be a map of key: value",
    "model_attributes_type": "must be a map of key: value",
    "tuple_type": "must be a list",
    "missing": "is required",
}


def validate(document: Document, model: type[_Model]) -> tuple[_Model | None, list[ConfigProblem]]:
    """Return the file's model and its mistakes, the first hundred of wrong keys and values.

    With mistakes, the model holds what is left when the keys in error are taken out (a pipeline goes as a
    whole), so that what is right can still be compared with other files; None when nothing is left.
    """
    findings: list[Finding] = []
    written: _Model | None
    try:
        written = _read(document.content, model)
    except ValidationError as error:
        findings += _translate_all(model, error.errors(include_url=False)[:MOST_MISTAKES])
        written = _validate_rest(document.content, model, findings)
    checks = check_main_file if model is WrittenFile else check_team_file
    contradictions = list(checks(document.content))
    if contradictions and written is not None:
        written = _validate_rest(document.content, model, [*findings, *contradictions])
    problems = [document.locate(finding) for finding in [*findings, *contradictions]]
    return written, list(in_order(problems))


def _validate_rest(content: dict[str, Any], model: type[_Model], findings: list[Finding]) -> _Model | None:
    rest, pipelines = dict(content), content.get("pipelines")
    if isinstance(pipelines, dict):
        rest["pipelines"] = pipelines = dict(pipelines)
    for finding in findings:
        section, *keys = finding.path
        if section == "pipelines" and keys and isinstance(pipelines, dict):
            pipelines.pop(keys[0], None)
        else:
            rest.pop(section, None)
    if "version" in model.model_fields:
        rest["version"] = "1"
    try:
        return _read(rest, model)
    except ValidationError:
        return None


def _read(content: dict[str, Any], model: type[_Model]) -> _Model:
    return model.model_validate(content, by_alias=True, by_name=False)


def retired(path: Path, value: object) -> tuple[SluiceError, str] | None:
    """Return the error of a retired key and its replacement, if any; None for any other key.

    ``value`` is the key's value.
    """
    match path:
        case ("defaults", "key_format") | ("pipelines", _, "key_format"):
            instead = f"key: {{format: {'raw' if value == 'binary' else value}}}"
            return fault("retired-key.key_format", instead=instead), instead
        case ("defaults", "encoding") | ("pipelines", _, "encoding"):
            return fault("retired-key.encoding"), ""
        case ("defaults", "checks", name) | ("pipelines", _, "checks", name) if type(value) is dict:
            return fault("retired-key.checks", check=name), ""
        case ("gateway", "rates"):
            return fault("retired-key.rates"), ""
        case (listener, "head") if listener in LISTENERS:
            return fault("retired-key.head"), ""
    return None


# What other tools have under these names: a wish deserves more than the nearest key.
_FORMAT = "Use `value` in the pipeline for the format: `value: {format: avro, registry: main}`."
_MIRROR = "For a copy of a database table use `layout: mirror`: docs/how-to/debezium-mirror.md."
_WISHES = {
    **dict.fromkeys(("format", "value_format", "schema_registry", "decoder", "value_converter"), _FORMAT),
    **dict.fromkeys(("mode", "upsert", "merge", "primary_key", "identifier_fields", "cdc"), _MIRROR),
    **dict.fromkeys(("port", "host"), "Write listen: HOST:PORT, or listen: off."),
    **dict.fromkeys(
        ("transform", "transforms", "where", "rename", "condition"),
        "`sql` computes a column, `filter` selects records: docs/reference/expressions.md.",
    ),
}


def _translate_all(model: type[BaseModel], details: list[ErrorDetails]) -> list[Finding]:
    """Return every mistake; a mistyped required key counts once."""
    findings = [(_translate(model, detail), detail["type"]) for detail in details]
    meant = {
        (*finding.path[:-1], _meant(finding.path[-1], _known_keys(model, finding.path)))
        for finding, kind in findings
        if kind == "extra_forbidden"
    }
    return [finding for finding, kind in findings if kind != "missing" or finding.path not in meant]


def _translate(model: type[BaseModel], detail: ErrorDetails) -> Finding:
    path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    if (gone := retired(path, detail["input"])) is not None:
        return Finding(path, gone[0].message, gone[0].hint)
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, UnreadableValueError):
        return Finding(path, cause.message, cause.hint)
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = _known_keys(model, path)
        hint = did_you_mean(_meant(path[-1], known), f"Known here: {', '.join(sorted(known))}.")
        return mistake("not-a-key", path, how=_WISHES.get(path[-1], hint))
    if kind in {"enum", "literal_error"}:
        return Finding(path, f"must be {detail['ctx']['expected']}")
    return Finding(path, _WANTED.get(kind, detail["msg"]))


def _known_keys(model: type[BaseModel], path: tuple[str, ...]) -> list[str]:
    """Return the keys of the section that holds the path's last key; pipeline names are not keys."""
    holder: type[BaseModel] | None = model
    for part in path[:-1]:
        fields = _by_key(holder) if holder else {}
        field = fields.get(part)
        holder = _model_in(field.annotation) if field else holder
    return list(_by_key(holder or model))


def _by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields by their names in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model within an annotation: optional, annotated, or item of a map or list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _meant(key: str, known: list[str]) -> str | None:
    return closest(key.lower().replace("-", "_"), known)
