"""What files of ``sluice.yaml``'s kind hold: pipelines, defaults, and the main file's own keys. Pure."""

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
from spark_jobs.config.sections import KafkaAuth
from spark_jobs.config.settings import PipelineSettings, RegistrySettings, SparkSettings
from spark_jobs.config.values import Frozen, key
from spark_jobs.protocol.errors import SluiceError, fault


class Extra(StrEnum):
    """What may be installed beside; each has its lock in bootstrap."""

    POSTGRES = "postgres"
    MSK = "msk"


class WrittenPipeline(PipelineSettings):
    """One topic, a list of topics, or all topics that match; each becomes one table."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [name]} for name in ("topic", "topics", "topics_regex")]}
    )

    topic: values.Topic | None = key(
        None, "The topic. Exactly one of `topic`, `topics`, `topics_regex` is given."
    )
    topics: tuple[values.Topic, ...] | None = key(
        None, "Several topics: one pipeline each, named after the topic; `table` holds `{topic}`."
    )
    topics_regex: values.Regex | None = key(
        None,
        "Every topic whose whole name matches (internal ones, `__…`, never do), as RE2 reads it: one pipeline"
        " each; `table` holds `{topic}`.",
    )
    table: values.Table = Field(
        description="`namespace.table`; `{topic}` is the topic, all but letters, digits and `_` as `_`."
    )


class WrittenCatalog(Frozen):
    """The Iceberg catalog, under PyIceberg's names. Left out: SQLite and a folder under the state folder."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    name: values.PipelineName = key("sluice", "Name of the catalog; SQL catalogs keep it with every table.")


class WrittenState(Frozen):
    """Where the log lies and what opens it, apart from what opens the lake."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, values.Scalar] = Field(init=False)

    uri: str = Field(description="As the text alone would be.")


class WrittenTeamFile(Frozen):
    """A file named by `include`: pipelines of one team, with defaults of their own."""

    defaults: PipelineSettings = key(
        PipelineSettings(), "As in the main file, for the pipelines of this file."
    )
    pipelines: dict[values.PipelineName, WrittenPipeline] = Field(
        default_factory=dict, description="Pipelines by name."
    )


class WrittenInclude(Frozen):
    """Team files and what this file lends them; a glob alone lends nothing."""

    files: str = Field(description="Team files, as a glob relative to this file.")
    secrets: values.OneOrMany[str] = key(
        (), "What their `notify` may name as `${…}`: `A_HOOK`, `file:/run/secrets/a`.", shown="none"
    )
    webhook_hosts: values.OneOrMany[str] = key(
        (), "Where their webhooks may go: `host[:port]` for https, `http://host[:port]`.", shown="none"
    )
    registries: values.OneOrMany[values.RegistryName] = key(
        (), "Which of `registries` their pipelines may be read by.", shown="none"
    )
    sources: values.OneOrMany[values.SourceName] = key(
        (), "Which of `sources` their mirrors may be of, and so be compared with.", shown="none"
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
    """The whole of `sluice.yaml`."""

    version: values.Version = Field(description="Version of this format.")
    kafka: values.Properties = Field(
        default_factory=dict,
        description="Any librdkafka property under its own name, `bootstrap.servers` first. Without it the"
        " embedded broker is meant. What decides that no record is lost (`isolation.level`,"
        " `auto.offset.reset`, …) is fixed and refused here.",
    )
    kafka_auth: KafkaAuth = key(
        KafkaAuth(),
        "Logging in to Kafka as no property can say it. `aws_msk_iam: {region: eu-central-1}`:"
        " Amazon MSK knows the client by IAM; needs `extras: [msk]`.",
        shown="none",
    )
    catalog: WrittenCatalog = key(
        WrittenCatalog(name="sluice"),
        "`name` and the properties of the catalog and its FileIO, under PyIceberg's names.",
    )
    state: State | None = key(
        None,
        "Root of the transaction log and of kept schemas, a path or any URI that PyIceberg can write;"
        " never inside the warehouse. As a map it has credentials of its own, and nothing of the catalog's:"
        " `{uri: s3://bucket/log, s3.access-key-id: …}`, under PyIceberg's names.",
        shown="log in the state folder",
    )
    extras: values.OneOrMany[Annotated[Extra, values.choice(Extra)]] = key(
        (),
        "Packages beside those that are always there, which `./sluice` installs, locked, before it runs a"
        " command: `postgres` for a catalog in Postgres, `msk` for Amazon MSK with IAM.",
        shown="none",
    )
    spark: SparkSettings = key(SparkSettings(), "Where tasks run.")
    registries: dict[values.RegistryName, RegistrySettings] = Field(
        default_factory=dict, description="Schema registries by name."
    )
    sources: dict[values.SourceName, values.SourceUrl] = Field(
        default_factory=dict,
        description="Databases that mirrors are of, by name: `shop: ${SHOP_POSTGRES}`, which holds"
        " `postgresql://user:password@host/database`. Never shown.",
    )
    listeners: ListenerDefaults = key(
        ListenerDefaults(),
        "What `ui`, `metrics`, `catalog_server` and `serve` have alike: `hosts`, `origins`, `tls`.",
    )
    ui: UiSettings = key(UiSettings(), "Where Dagster's UI is served, and for whom.")
    metrics: MetricsSettings = key(MetricsSettings(), "Where Prometheus metrics are served.")
    catalog_server: CatalogServerSettings = key(
        CatalogServerSettings(), "Where the catalog is served to other engines, for reading."
    )
    serve: ServeSettings = key(
        ServeSettings(), "Where queries are answered with what Kafka has, and for whom."
    )
    gateway: GatewaySettings = key(
        GatewaySettings(), "Streams for clients that cannot speak Kafka, and for whom."
    )
    include: Includes = key(
        (), "Team files: globs relative to this file, each alone or as `files` beside what it is lent."
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
    """Return what is told of a key that there is no more, and what says the same now, if anything does.

    None for any other key; ``value`` is what it has.
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
_FORMAT = "What values are written in is a pipeline's `value`: `value: {format: avro, registry: main}`."
_MIRROR = "A table that is as its database's is `layout: mirror`: docs/how-to/debezium-mirror.md."
_WISHES = {
    **dict.fromkeys(("format", "value_format", "schema_registry", "decoder", "value_converter"), _FORMAT),
    **dict.fromkeys(("mode", "upsert", "merge", "primary_key", "identifier_fields", "cdc"), _MIRROR),
    **dict.fromkeys(("port", "host"), "Write listen: HOST:PORT, or listen: off."),
    **dict.fromkeys(
        ("transform", "transforms", "where", "rename", "condition"),
        "A column's `sql` makes its values, `filter` says which records are rows: docs/how-to/shape-rows.md.",
    ),
}


def _translate_all(model: type[BaseModel], details: list[ErrorDetails]) -> list[Finding]:
    """Return every mistake; a required key that is there under a mistyped name is one, not two."""
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
    """Return the keys of the section that the path's last key stands in; names of pipelines are no keys."""
    holder: type[BaseModel] | None = model
    for part in path[:-1]:
        fields = _by_key(holder) if holder else {}
        field = fields.get(part)
        holder = _model_in(field.annotation) if field else holder
    return list(_by_key(holder or model))


def _by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields under the names a person writes."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model in an annotation, however wrapped: optional, annotated, a map's or a list's items."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _meant(key: str, known: list[str]) -> str | None:
    return closest(key.lower().replace("-", "_"), known)
