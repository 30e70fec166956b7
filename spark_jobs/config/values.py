"""Types of values in ``sluice.yaml``: their parsing and their JSON Schema. Pure.

The YAML reader returns every scalar as text; types are decided here. Values of the right type, as programs
give them, are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    SecretStr,
    WithJsonSchema,
    model_validator,
)

from spark_jobs.config.iceberg_terms import check_type_name, parse_partition_term
from spark_jobs.config.problems import UnreadableValueError, only, wrong_value
from spark_jobs.config.quantities import (
    DAY_SECONDS,
    parse_cron,
    parse_duration_seconds,
    parse_size_bytes,
    parse_timezone,
)
from spark_jobs.config.redaction import is_bare_url, redact_properties, redact_urls
from spark_jobs.protocol.work import LAYOUTS, Layout, layout_named

# One for all pipelines of a namespace, beside their tables.
BOOKS_TABLE = "sluice_batches"
_TABLE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")
_AWS_REGION = r"[a-z]+(-[a-z]+)+-[0-9]+"
_TOPIC = r"[A-Za-z0-9._-]{1,249}"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_OWNER = r"team:\S+|[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,7}"
_WEB = ("https://", "http://", "${")
_POSTGRES = ("postgresql://", "postgres://", "${")


def parsed(parse: Callable[[str], object], kind: type | tuple[type, ...] = ()) -> BeforeValidator:
    """Return a validator that parses text by ``parse``; values of ``kind`` are kept."""

    def read(value: object) -> object:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise wrong_value("not-one-value")
        return parse(value)

    return BeforeValidator(read)


def _positive(text: str) -> int:
    digits = text.replace("_", "")
    if not digits.isdecimal() or int(digits) == 0:
        raise wrong_value("not-a-count", text=text)
    return int(digits)


def _number(text: str) -> int:
    return 0 if text == "0" else _positive(text)


def _schema_version(text: str) -> int | None:
    if text == "latest":
        return None
    if not text.isdecimal() or int(text) == 0:
        raise wrong_value("not-a-subject-version", text=text)
    return int(text)


def _delimiter(text: str) -> str | None:
    if len(text) != 1 or text in '"\r\n':
        raise wrong_value("not-a-delimiter", text=text)
    return None if text == "," else text


def _text_encoding(text: str) -> str | None:
    try:
        "a".encode(text)  # refuses those that are not of text
    except (LookupError, ValueError):
        raise wrong_value("not-an-encoding", text=text) from None
    return None if text == "utf-8" else text


def _table(table: str) -> str:
    if not _TABLE.fullmatch(table.replace("{topic}", "topic")):
        raise wrong_value("not-a-table", text=table)
    if table.rpartition(".")[2].lower() == BOOKS_TABLE:
        raise wrong_value("table-is-the-books", name=table)
    return table


def _type_name(text: str) -> str:
    check_type_name(text)
    return text.strip()


def _orphan_age(text: str) -> int:
    seconds = parse_duration_seconds(text)
    if seconds < DAY_SECONDS:
        raise wrong_value("orphans-too-young", text=text)
    return seconds


def _registry_url(text: str) -> str:
    # What a reference gives is looked at again when it is known.
    if not text.startswith(_WEB):
        raise wrong_value("registry-url")
    if not is_bare_url(text):
        raise wrong_value("registry-url-with-more")
    return text


def _storage_path(text: str) -> str:
    if not text.startswith("/") and "://" not in text:
        raise wrong_value("not-a-place", text=text)
    return text.rstrip("/")


_absolute = only("not-absolute", lambda text: text.startswith("/"))


def _command(value: object) -> object:
    words = list(value) if isinstance(value, list | tuple) else [value]
    if not words or not all(isinstance(word, str) and word for word in words):
        raise wrong_value("not-a-command")
    _absolute(str(words[0]))
    return words


def _share(text: str) -> float:
    number = text.strip()
    try:
        share = float(number.removesuffix("%")) / 100 if number.endswith("%") else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise wrong_value("not-a-share", text=text)
    return share


def _version(value: object) -> int:
    if value != "1":
        raise wrong_value("version", version=value)
    return 1


def _matches(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


def choice(kind: type[StrEnum]) -> WithJsonSchema:
    """Return a JSON Schema annotation with the values of ``kind``."""
    return WithJsonSchema({"type": "string", "enum": [str(value) for value in kind]})


def _layout(text: str) -> Layout:
    if text not in LAYOUTS:
        names = " or ".join((", ".join(map(repr, LAYOUTS[:-1])), repr(LAYOUTS[-1])))
        raise UnreadableValueError(f"must be {names}", "")
    return layout_named(text)


_DURATION = _matches(r"^\d+\s*[smhd]$")
_T = TypeVar("_T")
OneOrMany = Annotated[
    tuple[_T, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Scalar = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
Duration = Annotated[int, parsed(parse_duration_seconds, int), _DURATION]
OrphanAge = Annotated[int, parsed(_orphan_age, int), _DURATION]
Cron = Annotated[str | None, parsed(parse_cron, type(None)), WithJsonSchema({"type": "string"})]
TimeZone = Annotated[str, parsed(parse_timezone), WithJsonSchema({"type": "string"})]
Share = Annotated[float, parsed(_share, (int, float)), _matches(r"^\d+(\.\d+)?\s*%$")]
Size = Annotated[int, parsed(parse_size_bytes, int), _matches(r"^\d+\s*([KMGT]i?)?B$")]
Count = Annotated[int, parsed(_positive, int), WithJsonSchema({"type": "integer", "minimum": 1})]
Number = Annotated[int, parsed(_number, int), WithJsonSchema({"type": "integer", "minimum": 0})]
Topic = Annotated[
    str,
    parsed(only("not-a-topic", re.compile(rf"(?!\.\.?$){_TOPIC}").fullmatch)),
    _matches(f"^{_TOPIC}$"),
]
# Whether RE2 knows it is judged with the expressions (``expressions.py``).
Regex = Annotated[str, parsed(str), WithJsonSchema({"type": "string", "format": "regex"})]
LayoutName = Annotated[
    InstanceOf[Layout], parsed(_layout, Layout), WithJsonSchema({"type": "string", "enum": [*LAYOUTS]})
]
Table = Annotated[str, parsed(_table), _matches(r"^[^.\s]+(\.[^.\s]+)+$")]
_is_name = re.compile(_NAME).fullmatch
PipelineName = Annotated[str, parsed(only("not-a-pipelines-name", _is_name)), _matches(f"^{_NAME}$")]
RegistryName = Annotated[str, parsed(only("not-a-registrys-name", _is_name)), _matches(f"^{_NAME}$")]
SourceName = Annotated[str, parsed(only("not-a-sources-name", _is_name)), _matches(f"^{_NAME}$")]
SourceUrl = Annotated[
    SecretStr,
    parsed(only("not-of-postgres", lambda text: text.startswith(_POSTGRES), is_shown=False), SecretStr),
    _matches(r"^(postgres(ql)?://|\$\{)"),
]
AwsRegion = Annotated[
    str, parsed(only("not-a-region", re.compile(_AWS_REGION).fullmatch)), _matches(f"^{_AWS_REGION}$")
]
RegistryUrl = Annotated[str, parsed(_registry_url), _matches(r"^(https?://|\$\{)")]
Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_command),
    WithJsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
]
AbsolutePath = Annotated[str, parsed(_absolute), _matches("^/")]
StoragePath = Annotated[str, parsed(_storage_path), _matches("^/|://")]
FileBelow = Annotated[
    str,
    parsed(only("not-below", lambda text: text[:1] != "/" and ".." not in text.split("/"))),
    _matches(r"^[^/]"),
]
SchemaVersion = Annotated[
    int | None,
    parsed(_schema_version, (int, type(None))),
    WithJsonSchema({"anyOf": [{"const": "latest"}, {"type": "integer", "minimum": 1}]}),
]
# What holds without a word is None: the shape of rows is the same with the word.
Delimiter = Annotated[str | None, parsed(_delimiter, type(None)), _matches(r'^[^"\r\n]$')]
TextEncoding = Annotated[str | None, parsed(_text_encoding, type(None)), _matches(".")]
HasHeader = Annotated[bool | None, AfterValidator(lambda flag: flag or None)]
Secret = Annotated[SecretStr, parsed(str, SecretStr), WithJsonSchema({"type": "string"})]
PartitionField = Annotated[str, parsed(lambda text: str(parse_partition_term(text)))]
SortColumn = Annotated[str, parsed(only("not-a-column", lambda text: text and "." not in text))]
# Dagster refuses all definitions for one owner that it cannot read.
Owner = Annotated[str, parsed(only("not-an-owner", re.compile(_OWNER).fullmatch))]
Properties = dict[str, Scalar]
# Those that may hold secrets are never dumped.
SecretProperties = Annotated[Properties, PlainSerializer(redact_properties)]
ColumnName = Annotated[
    str,
    parsed(only("column-of-ours", lambda text: not text.startswith("_kafka_") and text != "_ingested_at")),
]
TypeName = Annotated[str, parsed(_type_name)]
ConnectUrl = Annotated[
    str,
    parsed(only("not-of-spark-connect", lambda text: text.startswith("sc://"), is_shown=False), SecretStr),
    _matches("^sc://"),
    PlainSerializer(redact_urls),
]
Webhook = Annotated[
    SecretStr,
    parsed(only("not-a-webhook", lambda text: text.startswith(_WEB), is_shown=False), SecretStr),
    _matches(r"^(https?://|\$\{)"),
]
Version = Annotated[int, BeforeValidator(_version), WithJsonSchema({"const": 1})]


# What configuration models are made of: frozen sections, and a key with its default and its text.


class Frozen(BaseModel):
    """Base of all configuration models: immutable, no unknown fields, no values in validation errors.

    A program names fields as they are called here; a file is read by ``alias`` alone (``file_models.py``).
    ``model_fields_set`` is what is written.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_keys(cls, content: Any) -> Any:
        """Drop keys without a value, such as sections whose lines are all comments."""
        if not isinstance(content, dict):
            return content
        fields = cls.model_fields.items()
        optional = {field.alias or name for name, field in fields if not field.is_required()}
        return {key: value for key, value in content.items() if value is not None or key not in optional}


def key(default: Any, text: str, *, alias: str | None = None, shown: str | None = None) -> Any:
    """Return the model field of a key: its default in written form, and its description.

    ``alias`` is the written name of a field that has its unit in its own name. ``shown`` is the written form
    of a ``default`` that is not text.
    """
    return Field(
        default=default,
        validate_default=isinstance(default, str),
        alias=alias,
        description=text,
        json_schema_extra=None if shown is None else {"default": shown},
    )
