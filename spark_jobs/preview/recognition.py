"""Rules that recognize a topic's first records and propose YAML lines to read them.

A rule looks at the sample alone and yields what it recognized; ``init``, ``preview`` and ``check`` tell the
same. A new way in is a rule more in ``_RULES``.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, reduce
from typing import Any, NamedTuple

from spark_jobs.config.columns import FieldForm
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.texts import count
from spark_jobs.records.appearance import is_event, values_of
from spark_jobs.records.reading_plan import JSON
from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind
from spark_jobs.schema.iceberg_types import iceberg_type, type_text
from spark_jobs.schema.inference import Field, FieldType, Primitive, choose_types
from spark_jobs.schema.proposals import propose

UPSERT = {"envelope": "upsert"}
_NUMBERS = {Kind.LONG, Kind.WIDE_LONG, Kind.BIG_INTEGER, Kind.DOUBLE}
_KINDS = ({Kind.STRING, Kind.TIMESTAMP}, _NUMBERS, {Kind.BOOLEAN}, {Kind.OBJECT}, {Kind.ARRAY})
_ODD = 0.02  # of a field's values: fewer of another kind are mistakes, and good as dead letters
_YEAR_US = 365 * 86_400 * 1_000_000
_TIMES_US = range(31 * _YEAR_US, 130 * _YEAR_US)  # 2001 to 2100: no number is that in two units
_FEWEST_LINES = 2
_NO_LINE = ("{", "[", "<")  # begins JSON, or XML
_TIME_NAME = re.compile(r"(^|_)(at|ts|time|timestamp|date)(_|$)|[a-z](At|Time|Date|Timestamp)$")
# Workers of Kafka Connect share three topics: of settings, offsets and states.
_CONNECTS_KEY = re.compile(
    rb'(connector|task|commit|target-state|status-\w+)-.+|session-key|\["[^"]*",{.*}\]'
)
_CONNECTS_NAME = re.compile(r"(.*[-_.])?connect([-_.].*)?[-_.](configs?|offsets?|status(es)?)")


class Use(StrEnum):
    """Purpose of proposed lines: the format of all ``VALUES`` or ``KEYS``, or additions (``BESIDE``).

    ``INSTEAD`` is another table of the same records.
    """

    VALUES = "values"
    KEYS = "keys"
    BESIDE = "beside"
    INSTEAD = "instead"


class Recognized(NamedTuple):
    """A recognized property, with evidence, and the pipeline ``settings`` that suit it."""

    description: str
    settings: Mapping[str, Any]
    use: Use = Use.BESIDE


class Document(NamedTuple):
    """A JSON object, its Kafka timestamp, and whether it contains NaN, which is read as a fraction."""

    fields: dict[str, Any]
    time_ms: int
    has_nan: bool


@dataclass(frozen=True)
class Sample:
    """Sampled records, the evidence on their JSON fields, and columns of a flat table."""

    chunks: Sequence[Chunk]
    evidence: Evidence
    columns: Sequence[Field]
    is_compacted: bool = False

    @cached_property
    def values(self) -> list[bytes]:
        """The values, without tombstones."""
        return values_of(self.chunks)

    @cached_property
    def keys(self) -> list[bytes]:
        """The existing keys."""
        return [key for chunk in self.chunks for key in chunk.keys if key is not None]

    @cached_property
    def documents(self) -> list[Document]:
        """The JSON objects, including those with NaN."""
        records = (
            each for chunk in self.chunks for each in zip(chunk.values, chunk.timestamps_ms, strict=True)
        )
        return [each for value, time_ms in records for each in _parsed(value or b"", time_ms)]

    def of_values(self, number: int) -> str:
        """Return the share of values as text."""
        return f"{number:,} of {count(len(self.values), 'value')}"


def recognize(sample: Sample, pipeline: PipelineConfig | None = None) -> tuple[Recognized, ...]:
    """Return the rules' findings; for a ``pipeline`` only those that it does not configure yet."""
    found = [each for rule in _RULES for each in rule(sample)]
    if any(each.use is Use.VALUES for each in found):  # what it is as JSON objects says nothing then
        found = [each for each in found if each.use in (Use.VALUES, Use.KEYS)]
    if pipeline is not None:
        found = [each._replace(settings=_unsaid(each, pipeline)) for each in found]
    return tuple(each for each in found if each.settings)


def is_of_connect(topic: str, sample: Sample) -> bool:
    """True if it is an internal topic of Kafka Connect, by its keys or else its name."""
    if not sample.keys:
        return not sample.values and _CONNECTS_NAME.fullmatch(topic) is not None
    are_tasks = all(key.startswith((b"task-", b"commit-")) for key in sample.keys)
    return not are_tasks and all(map(_CONNECTS_KEY.fullmatch, sample.keys))


def together(found: Sequence[Recognized], *uses: Use) -> dict[str, Any]:
    """Return the combined settings of these uses; the first of equal keys stays."""
    settings: dict[str, Any] = {}
    for each in found:
        for name, value in each.settings.items() if each.use in uses else ():
            settings[name] = {**value, **settings.get(name, {})} if name == "columns" else value
    return settings


def _unsaid(found: Recognized, pipeline: PipelineConfig) -> dict[str, Any]:
    is_plain = pipeline.layout.stored is None and pipeline.value.format is ValueFormat.JSON
    if "columns" in pipeline.layout.not_said or not (is_plain or found.use in (Use.BESIDE, Use.KEYS)):
        return {}
    fixed = {"partition_by"}.intersection(pipeline.layout.not_said)
    fixed |= {"partition_by"} if pipeline.table_partition_by else set()
    fixed |= {"key"} if pipeline.key_is_binary or "format" in pipeline.record_key.model_fields_set else set()
    is_whole = found.use is Use.INSTEAD  # its columns are of its own reading
    every = found.settings.get("columns", {}).items()
    columns = {name: each for name, each in every if is_whole or name not in pipeline.columns}
    settings = {name: each for name, each in found.settings.items() if name not in {"columns", *fixed}}
    return {**settings, "columns": columns} if columns else settings


def _events(sample: Sample) -> Iterator[Recognized]:
    events = sum(is_event(each.fields) for each in sample.documents)
    if events * 2 > len(sample.values):
        description = f"{sample.of_values(events)} are Debezium events; all others become dead letters"
        yield Recognized(description, {"layout": "changes"}, Use.VALUES)


def _with_schemas(sample: Sample) -> Iterator[Recognized]:
    every = [each.fields for each in sample.documents if each.fields.keys() == {"schema", "payload"}]
    rows = sum(isinstance(each["payload"], dict) and not is_event(each) for each in every)
    if rows * 2 > len(sample.values):
        layout = "mirror" if sample.is_compacted else "changes"
        description = f"{sample.of_values(rows)} are rows of Kafka Connect with their schema"
        yield Recognized(description, {"layout": layout, "cdc": UPSERT}, Use.VALUES)


def _compacted(sample: Sample) -> Iterator[Recognized]:
    if sample.is_compacted and sample.keys and len(sample.documents) * 2 > len(sample.values):
        description = "the topic is compacted: the table has the newest row of each key, without deleted keys"
        yield Recognized(description, {"layout": "mirror", "cdc": UPSERT}, Use.INSTEAD)


def _binary_keys(sample: Sample) -> Iterator[Recognized]:
    binary = [key for key in sample.keys if _is_binary(key)]
    if binary and len(binary) * 2 > len(sample.keys):
        description = (
            f"{len(binary):,} of {count(len(sample.keys), 'key')} are not text: 0x{binary[0][:16].hex()}"
        )
        yield Recognized(description, {"key": {"format": "raw"}}, Use.KEYS)


def _not_numbers(sample: Sample) -> Iterator[Recognized]:
    if odd := sum(each.has_nan for each in sample.documents):
        texts = [json.dumps(each.fields).encode() for each in sample.documents]
        many = len(texts)
        seen = JSON.decoder.observe(
            Chunk(0, [*range(many)], [0] * many, [None] * many, [*texts], [None] * many)
        )
        columns = {
            each.name: _of_text(each, _spelled(each.name, seen))
            for each in choose_types(seen)
            if each.name != "value"
        }
        description = f"{sample.of_values(odd)} have NaN or Infinity, which is not JSON: read as text"
        use = Use.VALUES if odd * 2 > len(sample.values) else Use.INSTEAD
        yield Recognized(description, {"value": {"format": "string"}, "columns": columns}, use)


def _lines(sample: Sample) -> Iterator[Recognized]:
    """Recognize CSV: equal field counts for one delimiter; a first line of names is a header."""
    texts, encoding = _decoded(sample.values)
    if len(texts) < _FEWEST_LINES or any(text[:1] in _NO_LINE or not text.strip() for text in texts):
        return
    # Of characters that all have as often the one that makes most fields: numbers have commas too.
    cut = {each: [_fields(text, each) for text in texts] for each in ",;\t|"}
    usual = {each: Counter(map(len, lines)).most_common(1)[0] for each, lines in cut.items()}
    delimiter = max(cut, key=lambda each: (usual[each][0] > 1, *reversed(usual[each])))
    fields, times = usual[delimiter]
    if fields == 1 or times < (1 - _ODD) * len(texts):
        return
    names = [name.strip() for name in cut[delimiter][0]]
    has_header = all(map(str.isidentifier, names)) and len({*names}) == fields == len(names)
    columns = names if has_header else [f"field_{number}" for number in range(1, fields + 1)]
    value: dict[str, Any] = {"format": "csv", "delimiter": delimiter, "columns": columns}
    value |= ({"header": True} if has_header else {}) | ({"encoding": encoding} if encoding else {})
    description = f"{sample.of_values(times)} are lines of {fields} fields"
    yield Recognized(description, {"value": value}, Use.VALUES)


def _times(sample: Sample) -> Iterator[Recognized]:
    for name in (column.name for column in sample.columns if column.type is Primitive.LONG):
        pairs = [(each.fields.get(name), each.time_ms * 1000) for each in sample.documents]
        numbers = [(number, at) for number, at in pairs if type(number) is int]
        for form in (each for each in FieldForm if numbers and each.is_epoch):
            times = [(number * form.unit_us, at) for number, at in numbers]
            is_near = all(abs(time - at) < _YEAR_US for time, at in times)
            if all(time in _TIMES_US for time, _ in times) and (is_near or _TIME_NAME.search(name)):
                first = datetime.fromtimestamp(times[0][0] // 1_000_000, UTC)
                description = f"{name}: {numbers[0][0]} as {form} is {first:%Y-%m-%dT%H:%M:%SZ}"
                yield Recognized(
                    description, {"columns": {name: {"type": "timestamptz", "from": form.value}}}
                )


def _mixed(sample: Sample) -> Iterator[Recognized]:
    for name, seen in sample.evidence.fields.items():
        values = seen.count(*Kind) - seen.count(Kind.NULL)
        usual = max((seen.count(*kinds) for kinds in _KINDS), default=0)
        if values - usual > _ODD * values:
            kinds = ", ".join(f"{kind} {each.count:,}" for kind, each in seen.kinds.items())
            yield Recognized(f"{name}: {kinds}", {"columns": {name: {"type": "string", "from": "json"}}})


def _spellings(sample: Sample) -> Iterator[Recognized]:
    """Recognize several names of one column: a path accepts any, and others must be declared."""
    fields = sample.evidence.fields
    settings: dict[str, Any] = {each.name: _text(each.type) for each in sample.columns if each.name in fields}
    descriptions = []
    for column in [*settings]:
        names = _spelled(column, sample.evidence)
        if len(names) > 1:
            merged = reduce(FieldEvidence.merge, map(fields.__getitem__, names))
            kind = choose_types(Evidence(fields={column: merged}))[0].type
            settings[column] = {
                "type": _text(kind),
                "jmespath": f"not_null({', '.join(map(_quoted, names))})",
            }
            descriptions.append(f"{' and '.join(names)} differ only in case")
    if descriptions:
        yield Recognized("; ".join(descriptions), {"schema": {"new_fields": "ignore"}, "columns": settings})


def _worth(sample: Sample) -> Iterator[Recognized]:
    better, time = propose(sample.columns, sample.evidence)
    if time is not None:
        yield Recognized("", {"partition_by": [f"day({time})"]})
    for each in better:
        yield Recognized(f"{each.name}: keeps every value seen", {"columns": {each.name: _text(each.type)}})


_RULES = (
    _events,
    _with_schemas,
    _not_numbers,
    _lines,
    _binary_keys,
    _times,
    _mixed,
    _worth,
    _spellings,
    _compacted,
)


def _parsed(value: bytes | None, time_ms: int) -> Iterator[Document]:
    texts: list[str] = []

    def note(text: str) -> float:
        texts.append(text)
        return 0.5

    with suppress(ValueError, RecursionError):
        fields = json.loads(value or b"", parse_constant=note)
        if isinstance(fields, dict):
            yield Document(fields, time_ms, bool(texts))


def _decoded(values: Sequence[bytes]) -> tuple[list[str], str]:
    """Return texts without control characters, and their encoding if not UTF-8."""
    for encoding in ("utf-8", "latin-1"):
        with suppress(UnicodeDecodeError):
            texts = [value.decode(encoding) for value in values]
            are_texts = all(text.replace("\t", "").strip("\r\n").isprintable() for text in texts)
            return texts if are_texts else [], "" if encoding == "utf-8" else encoding
    return [], ""


def _fields(text: str, delimiter: str) -> list[str]:
    return next(csv.reader([text.strip("\r\n")], delimiter=delimiter), [])


def _is_binary(key: bytes) -> bool:
    try:
        return "\0" in key.decode()
    except UnicodeDecodeError:
        return True


def _spelled(column: str, evidence: Evidence) -> list[str]:
    """Return field names that differ from the column's only in case."""
    return [each for each in evidence.fields if each.lower() == column.lower()]


def _of_text(column: Field, names: Sequence[str]) -> dict[str, str]:
    paths = [json.dumps(name, ensure_ascii=False).replace("'", "''") for name in names]
    sql = ", ".join(f"json_extract_string(value, '$.{path}')" for path in paths)
    sql = f"coalesce({sql})" if len(paths) > 1 else sql
    if column.type is Primitive.DOUBLE:
        return {"type": "double", "sql": f"CAST({sql} AS DOUBLE)"}
    return {"type": column.type.value if isinstance(column.type, Primitive) else "string", "sql": sql}


def _text(kind: FieldType) -> str:
    return type_text(iceberg_type(kind))


def _quoted(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else json.dumps(name, ensure_ascii=False)
