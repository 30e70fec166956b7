"""Parsing of Iceberg types, partition transforms, sort orders, codecs and sizes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_jobs.config.problems import Finding, closest, did_you_mean, mistake, wrong_value

# What Iceberg's table properties can say: drains and Spark's compaction both write with them.
#
# Iceberg names six codecs (https://iceberg.apache.org/docs/latest/configuration/#write-properties). PyArrow
# and Spark both have five of them; of levels they agree for zstd alone: Spark takes gzip's as a word.


CODEC = "write.parquet.compression-codec"
LEVEL = "write.parquet.compression-level"
ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
CODECS = ("zstd", "gzip", "lz4", "snappy", "uncompressed")
_WITH_LEVELS = "zstd"
_ZSTD_LEVELS = range(-7, 23)
# Which properties take which values; all others are nobody's to judge here.
_RULES = (
    (r"(write|commit).*-(bytes|limit|max|merge)", r"0*[1-9]\d*", "a whole number above 0, without a unit"),
    (r"(write|commit).*(\.enabled|partitioned-paths)", "(?i)true|false", "true or false"),
    (
        r"write\.metadata\.metrics\.(default|column\..*)",
        r"(?i)none|counts|full|truncate\([1-9]\d*\)",
        "none, counts, full or truncate(LENGTH)",
    ),
)


def wrong_property(key: str, properties: Mapping[str, str]) -> Finding | None:
    """Return the problem of the value of ``key``, its path, or None; other keys are not checked."""
    value = properties[key]
    if key == CODEC and value.lower() not in CODECS:
        brotli, others = value.lower() == "brotli", ", ".join(CODECS)
        return mistake("codec-of-drains" if brotli else "codec", (key,), value=value, codecs=others)
    if key == LEVEL:
        codec = codec_of(properties)
        if codec != _WITH_LEVELS:
            return mistake("level-of-none", (key,), codec=codec, with_levels=_WITH_LEVELS)
        if not value.removeprefix("-").isdecimal() or int(value) not in _ZSTD_LEVELS:
            return mistake("level", (key,), value=value, least=_ZSTD_LEVELS[0], most=_ZSTD_LEVELS[-1])
    for keys, values, allowed in _RULES:
        if re.fullmatch(keys, key, re.ASCII) and not re.fullmatch(values, value, re.ASCII):
            return mistake("property", (key,), value=value, values=allowed)
    return None


def with_fitting_values(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without values that a writer would fail on."""
    return {key: value for key, value in properties.items() if wrong_property(key, properties) is None}


def codec_of(properties: Mapping[str, str]) -> str:
    """Return the configured codec, or Iceberg's default."""
    return properties.get(CODEC, "zstd").lower()


# Iceberg type names as declared in ``columns``: checked here, given to the table as they are.


PRIMITIVES = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
    "binary",
)  # fmt: skip
_OTHER_NAMES = {
    "bool": "boolean", "integer": "int", "int32": "int", "bigint": "long", "int64": "long", "real": "float",
    "float32": "float", "float64": "double", "number": "double", "datetime": "timestamp",
    "timestamp_ntz": "timestamp",
    "timestamp_tz": "timestamptz", "timestamp_ltz": "timestamptz", "varchar": "string", "text": "string",
    "str": "string", "bytes": "binary", "array": "list<…>", "object": "struct<name: type, …>",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\s*\[\s*[1-9]\d*\s*\]")
_NESTED = re.compile(r"(list|map|struct)\s*<(.*)>", re.DOTALL)
_MAX_PRECISION = 38
_QUOTE = "`"
_QUOTED = re.compile(r"`((?:[^`]|``)+)`", re.DOTALL)
_PLAIN = re.compile(r"[^\s,:<>()\[\]`]+( +[^\s,:<>()\[\]`]+)*")
_HINT = (
    f"Use one of {', '.join(PRIMITIVES)}, decimal(p, s), fixed[n], list<…>, map<…, …>, struct<name: type>."
)


def check_type_name(text: str) -> None:
    """Return if ``text`` is an Iceberg v2 type. Raises ``UnreadableValueError`` otherwise."""
    name = text.strip()
    if name in PRIMITIVES or _FIXED.fullmatch(name):
        return
    if decimal := _DECIMAL.fullmatch(name):
        precision, scale = map(int, decimal.groups())
        if not 0 < precision <= _MAX_PRECISION or scale > precision:
            raise wrong_value("decimal", text=text, most=_MAX_PRECISION)
    elif nested := _NESTED.fullmatch(name):
        _check_nested(text, nested[1], split_arguments(nested[2]))
    else:
        meant = _OTHER_NAMES.get(name.lower()) or closest(name.lower(), PRIMITIVES)
        raise wrong_value("not-a-type", text=text, how=did_you_mean(meant, _HINT))


def split_arguments(text: str, at: str = ",", most: int = -1) -> list[str]:
    """Split at every (or the first ``most``) ``at`` outside ``<…>``, ``(…)``, ``[…]`` and backticks."""
    parts = [""]
    depth = 0
    is_quoted = False
    for character in text:
        is_quoted ^= character == _QUOTE
        depth += 0 if is_quoted else (character in "<([") - (character in ">)]")
        if character == at and depth == 0 and not is_quoted and len(parts) != most + 1:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def split_field(text: str) -> tuple[str, str] | None:
    """Return the name and type of ``name: type``; None if either is missing."""
    name, *rest = split_arguments(text, ":", 1)
    if not rest:
        return None
    if quoted := _QUOTED.fullmatch(name):
        name = quoted[1].replace(_QUOTE * 2, _QUOTE)
    elif _QUOTE in name:
        return None
    return (name, rest[0]) if name else None


def field_text(name: str, type_name: str) -> str:
    """Return ``name: type`` as ``split_field`` reads it, with backticks if needed."""
    if _PLAIN.fullmatch(name):
        return f"{name}: {type_name}"
    return f"{_QUOTE}{name.replace(_QUOTE, _QUOTE * 2)}{_QUOTE}: {type_name}"


def _check_nested(text: str, kind: str, arguments: list[str]) -> None:
    if kind == "struct":
        for argument in arguments:
            if (field := split_field(argument)) is None:
                raise wrong_value("struct-field", text=text)
            check_type_name(field[1])
        return
    if len(arguments) != (1 if kind == "list" else 2):
        raise wrong_value("types-inside", text=text)
    for argument in arguments:
        check_type_name(argument)


# Iceberg partition transforms as written: ``day(time_hour)``, ``bucket(16, id)``, ``origin``.


_TIME = ("year", "month", "day", "hour")
_WITH_WIDTH = ("bucket", "truncate")
TRANSFORMS = ("identity", *_TIME, *_WITH_WIDTH)
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
_COLUMN = re.compile(r"[^\s(),\[\]{}'\"`;]+")
_DAYS = ("date", "timestamp", "timestamptz")
_TRUNCATED = ("int", "long", "decimal", "string", "binary")
_VALUES = (*_TRUNCATED, *_DAYS, "time", "uuid")
# What writers can do: PyIceberg's manifests with a fixed value are none for Java, and of float and double
# engines disagree on which numbers are equal.
_TAKES = {
    "identity": (*_VALUES, "boolean"),
    "bucket": (*_VALUES, "fixed"),
    "truncate": _TRUNCATED,
    **dict.fromkeys(("year", "month", "day"), _DAYS),
    "hour": ("timestamp", "timestamptz"),
}
_TRANSFORM_HINT = "Write a column, year|month|day|hour(column), bucket(16, column) or truncate(8, column)."


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """A partition field; ``width`` is the number of buckets or truncation width, else None.

    ``column`` names a top-level column, or a field inside structs with dots.
    """

    transform: str
    column: str
    width: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform}({width}{self.column})"


def parse_partition_term(text: str) -> PartitionTerm:
    """Parse one term; a bare column is the identity transform. Raises ``UnreadableValueError``."""
    term = text.strip()
    if _COLUMN.fullmatch(term):
        return PartitionTerm("identity", term)
    call = _CALL.fullmatch(term)
    if call is None:
        raise wrong_value("not-a-transform", text=text, how=_TRANSFORM_HINT)
    transform = call[1].lower()
    if transform not in TRANSFORMS:
        hint = did_you_mean(closest(transform, TRANSFORMS), _TRANSFORM_HINT)
        raise wrong_value("unknown-transform", text=call[1], how=hint)
    *width, column = (argument.strip() for argument in call[2].split(","))
    is_column = _COLUMN.fullmatch(column) is not None
    if transform in _WITH_WIDTH:
        is_width = len(width) == 1 and width[0].isdecimal() and int(width[0]) > 0
        if not (is_width and is_column):
            raise wrong_value("transform-with-width", text=text, transform=transform)
        return PartitionTerm(transform, column, int(width[0]))
    if width or not is_column:
        raise wrong_value("transform-of-one", text=text, transform=transform)
    return PartitionTerm(transform, column)


def misfit(term: PartitionTerm, type_name: str) -> tuple[str, str] | None:
    """Return why a column of this type cannot have this transform, and a hint; None if it can."""
    if type_name.partition("(")[0].partition("[")[0].strip() in _TAKES[term.transform]:
        return None
    problem = f"{term.transform} cannot be used with {term.column}, which is {type_name}"
    if term.transform == "identity" and type_name in {"float", "double"}:
        return problem, (
            "Remove it, or declare a decimal: engines do not agree on -0.0 and NaN. A table that is already"
            " partitioned this way does not change until `repartition`."
        )
    return problem, "Use another transform, or declare the column's type under `columns:`."


def check_partition_by(terms: Iterable[str], types: Mapping[str, str]) -> Finding | None:
    """Return the problem of partitioning by declared columns, or None."""
    for term in map(parse_partition_term, terms):
        if term.column in types and (wrong := misfit(term, types[term.column])) is not None:
            return Finding(("partition_by",), *wrong)
    return None


# What can be said of ``sort_by`` before there is a table.


_UNSORTED = ("struct", "list", "map")


def check_sort_by(sort_by: Sequence[str], columns: Mapping[str, str]) -> Finding | None:
    """Return the problem of sorting by these columns, or None; ``columns`` are declared types."""
    if twice := next((name for name in sort_by if sort_by.count(name) > 1), None):
        return mistake("sorted-twice", ("sort_by",), name=twice)
    for name in sort_by:
        if (kind := columns.get(name, "")).startswith(_UNSORTED):
            return mistake("without-order", ("sort_by",), name=name, type=kind)
    return None
