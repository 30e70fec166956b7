"""Schemas of one pipeline's records: from files, or from a registry as records name them.

Where records name none, the registry is asked for a version of a subject whenever a drain is planned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.config.value_format import KeySettings, SchemaPlace, UnknownFields, ValueFormat, ValueSettings
from spark_jobs.connections.named_schemas import SubjectVersion, read_file
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.csv.lines import CsvLines
from spark_jobs.formats.json_schema.schema import json_schema
from spark_jobs.formats.protobuf.schema import protobuf_schema
from spark_jobs.protocol.errors import ConfigError, RetryableError, fault
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import Layout
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.schema_views import WholeValue
from spark_jobs.schema.writer_schema import Language, SchemaText, WriterSchema

_log = logging.getLogger(__name__)
# What values with a schema are written in, and what makes one of its text.
_LANGUAGES: dict[ValueFormat, tuple[Language, Callable[..., WriterSchema]]] = {
    ValueFormat.AVRO: (Language.AVRO, lambda text, **_: avro_schema(text)),
    ValueFormat.PROTOBUF: (Language.PROTOBUF, protobuf_schema),
    ValueFormat.JSON_SCHEMA: (
        Language.JSON_SCHEMA,
        lambda text, *, ignores, **_: json_schema(text, ignores=ignores),
    ),
}
# What others are read by, of which all is said where they are configured.
_WITHOUT_SCHEMA: dict[ValueFormat, Callable[[Any], WriterSchema]] = {
    ValueFormat.STRING: lambda _: WholeValue(is_text=True),
    ValueFormat.RAW: lambda _: WholeValue(is_text=False),
    ValueFormat.CSV: lambda lines: CsvLines(
        lines.columns, lines.delimiter or ",", bool(lines.header), lines.encoding or "utf-8"
    ),
}


class RecordSchemas:
    """Known schemas of a pipeline; it grows, but returned sets do not change."""

    def __init__(
        self,
        value: ValueSettings,
        keys: KeySettings,
        *,
        topic: str,
        layout: Layout,
        registry: Callable[[str], SchemaStore],
        folder: Path,
    ) -> None:
        self._values = _Schemas(value, registry, folder, value.subject or f"{topic}-value")
        self._keys = (
            _Schemas(
                keys,
                registry,
                folder,
                keys.subject or f"{topic}-key",
                partial(layout.of_keys, name=keys.column),
            )
            if keys.format.has_schema
            else None
        )

    def known(self, progress: Progress | None = None) -> KnownSchemas:
        """Return the known schemas, including those that a table of this progress keeps.

        Raises ``ConfigError`` for a file or schema that cannot be read, and as ``SchemaStore.schemas_of``.
        """
        values = self._values.known(progress)
        return values if self._keys is None else replace(values, keys=self._keys.known(progress))

    def learn(self, keys: Iterable[SchemaKey], progress: Progress | None = None) -> KnownSchemas:
        """Request unknown schemas among ``keys``, which are all that some records name.

        Raises ``ConfigError`` (``registry-knows-none``) when it has none of them, nor the newest that the
        table keeps: then it is empty, or another one. One that is there and cannot be used costs the records
        that name it; what is wrong with the first is raised where none is known that can. Others as
        ``known``.
        """
        named, kept = set(keys), progress.schemas if progress else {}
        for each in self._both:
            each.learn(named, kept)
        return self.known(progress)

    def ask_for_versions(self, progress: Progress) -> None:
        """Look up the versions for a batch that is planned now, for records without schema ids.

        Raises as ``SchemaStore.version``.
        """
        for each in self._versions:
            each.ask(progress)

    def planned(self, progress: Progress) -> Progress:
        """Return the progress with the current versions, for planning a batch.

        Raises as ``ask_for_versions``.
        """
        self.ask_for_versions(progress)
        return replace(progress, schema_spans=())

    def read_by(self, progress: Progress, *, asks_anew: bool) -> tuple[SchemaKey, ...]:
        """Return the versions to read a batch by; without ``asks_anew`` only those the table lacks."""
        return tuple(each.key(progress) for each in self._versions if asks_anew or not each.kept(progress))

    def ask_again(self, progress: Progress) -> None:
        """Raise ``ConfigError`` (``registry-changed``) if a registry has another schema than the table.

        A registry that does not answer is ignored: known schemas suffice.
        """
        for each in self._both:
            each.ask_again(progress.schemas)

    def digests(self) -> dict[SchemaKey, str]:
        """Return the digests of learned schemas, as a table keeps them."""
        return {key: digest for each in self._both for key, digest in each.digests().items()}

    def file_digests(self) -> dict[str, str]:
        """Return the digests of schemas in files. Raises ``ConfigError`` for one that cannot be read."""
        read = {each.section: each.read_file() for each in self._both}
        return {section: digest for section, digest in read.items() if digest is not None}

    @property
    def _both(self) -> tuple[_Schemas, ...]:
        return tuple(filter(None, (self._values, self._keys)))

    @property
    def _versions(self) -> tuple[SubjectVersion, ...]:
        return tuple(each.by_version for each in self._both if each.by_version is not None)


class _Schemas:
    """Schemas of the values or, as one column, of the keys."""

    def __init__(
        self,
        value: SchemaPlace,
        registry: Callable[[str], SchemaStore],
        folder: Path,
        subject: str,
        placed: Callable[[WriterSchema], WriterSchema] | None = None,
    ) -> None:
        self._value = value
        self._placed = placed
        self._registry = registry
        self._folder = folder
        self._by_key: dict[SchemaKey | None, WriterSchema | None] = {}
        self._unused: dict[SchemaKey, ConfigError] = {}
        self._texts: dict[SchemaKey, SchemaText] = {}
        self.by_version: SubjectVersion | None = None
        self._file_digest: str | None = None
        if value.is_by_version:
            of_key, take = self._is_of_keys, self._take
            self.by_version = SubjectVersion(value, subject, of_key=of_key, registry=registry, take=take)

    def known(self, progress: Progress | None) -> KnownSchemas:
        kept = progress.schemas if progress else {}
        spans = self.by_version.spans(progress) if self.by_version else ()
        self.read_file()
        if (make := _WITHOUT_SCHEMA.get(self._value.format)) is not None:
            self._by_key[None] = make(self._value)
        if self._value.is_framed:
            self._ask_for_kept(filter(self._is_named, kept), kept)
        self._ask_for_kept((span.key for span in spans), kept)
        return KnownSchemas(
            dict(self._by_key),
            self._value.format is ValueFormat.PROTOBUF,
            is_framed=self._value.is_framed and self._value.format.has_schema,
            framing=self._value.framing,
            of_key=self._is_of_keys,
            spans=spans,
            unused={key: f"schema {key} is not used: {why.message}" for key, why in self._unused.items()},
        )

    def read_file(self) -> str | None:
        """Read the schema file, if configured, and return its digest."""
        if self._value.file is not None and self._file_digest is None:
            language, _ = _LANGUAGES[self._value.format]
            text = read_file(language, self._folder, self._value.file, self._value.include, self.section)
            self._by_key[None], self._file_digest = self._parsed(text), text.digest
        return self._file_digest

    def learn(self, keys: Collection[SchemaKey], kept: Mapping[SchemaKey, str]) -> None:
        named = {key for key in keys if key.of_key is self._is_of_keys}
        self._ask(named, {})
        if not named or any(self._by_key[key] for key in named):
            return
        own = {key: digest for key, digest in kept.items() if key.of_key is self._is_of_keys}
        if own or not any(self._by_key.values()):
            self._refuse_unusable(named, own)

    def ask_again(self, kept: Mapping[SchemaKey, str]) -> None:
        known = {key.schema_id: digest for key, digest in kept.items() if key.of_key is self._is_of_keys}
        if known and self._value.registry is not None:
            try:
                self._registry(self._value.registry).check(known)
            except RetryableError as error:
                _log.info("the stored schemas were not compared with the registry: %s", error)

    def digests(self) -> dict[SchemaKey, str]:
        return {key: text.digest for key, text in sorted(self._texts.items())}

    @property
    def section(self) -> str:
        return "key" if self._is_of_keys else "value"

    @property
    def _is_of_keys(self) -> bool:
        return self._placed is not None

    def _ask(self, keys: Iterable[SchemaKey], expected: Mapping[SchemaId, str]) -> None:
        asked = set(keys)
        # What the registry did not have once, and a table was filled by since, is there by now.
        unknown = {key for key in asked - self._unused.keys() if not self._by_key.get(key)}
        lacked = {key for key in unknown if key.schema_id in expected}
        new = sorted((asked - self._by_key.keys()) | lacked)
        if not new or self._value.registry is None:
            return
        texts = self._registry(self._value.registry).schemas_of({key.schema_id for key in new}, expected)
        for key in new:
            if (text := texts.get(key.schema_id)) is None:
                self._by_key[key] = None
            elif key.schema_id in expected or not self._value.is_framed:
                self._take(key, text)
            else:
                self._learn(key, text)

    def _learn(self, key: SchemaKey, text: SchemaText) -> None:
        """Store the schemas that records name; an unusable one must not stop the others."""
        try:
            self._take(key, text)
        except ConfigError as error:
            self._by_key[key], self._unused[key] = None, error
            _log.warning("schema %s of the registry %s is not used: %s", key, self._value.registry, error)
        else:
            _log.info("learned schema %s of the registry %s", key, self._value.registry)

    def _ask_for_kept(self, keys: Iterable[SchemaKey], kept: Mapping[SchemaKey, str]) -> None:
        wanted = set(keys)
        self._ask(wanted, {key.schema_id: digest for key, digest in kept.items() if key in wanted})

    def _take(self, key: SchemaKey, text: SchemaText) -> None:
        if key not in self._texts:
            self._by_key[key], self._texts[key] = self._parsed(text, key), text

    def _is_named(self, key: SchemaKey) -> bool:
        """True for schemas that records can name, not for versions of a subject."""
        is_whole = bool(key.indexes) or self._value.format is not ValueFormat.PROTOBUF
        return is_whole and key.of_key is self._is_of_keys

    def _parsed(self, text: SchemaText, key: SchemaKey | None = None) -> WriterSchema:
        schema = self._read(text, key)
        return self._placed(schema) if self._placed else schema

    def _read(self, text: SchemaText, key: SchemaKey | None) -> WriterSchema:
        wanted, make = _LANGUAGES[self._value.format]
        if text.language is not wanted:
            raise fault(
                "schema-of-another-format",
                language=text.language.title(),
                configured=wanted.title(),
                section=self.section,
                schema=str(key),
                registry=self._value.registry,
            )
        return make(
            text,
            message=self._value.message,
            indexes=key.indexes if key else (),
            ignores=self._value.unknown_fields is UnknownFields.IGNORE,
        )

    def _refuse_unusable(self, named: Collection[SchemaKey], kept: Mapping[SchemaKey, str]) -> None:
        if unused := sorted(self._unused.keys() & named):
            if kept:
                return
            raise self._unused[unused[0]]
        name = str(self._value.registry)
        newest = {key.schema_id: digest for key, digest in sorted(kept.items())[-1:]}
        if newest and not self._registry(name).check(newest):
            return
        ids = ", ".join(str(key.schema_id) for key in sorted(named)[:5])
        raise fault("registry-knows-none", name=name, section=self.section, schemas=ids)


def schema_sources(
    config: SluiceConfig, registry: Callable[[str], SchemaStore]
) -> Callable[[PipelineConfig], RecordSchemas]:
    """Return a function from pipeline to its known schemas."""
    folder = Path(config.source).parent if config.source else Path()

    @cache
    def source(
        _table: str, topic: str, value: ValueSettings, keys: KeySettings, layout: Layout
    ) -> RecordSchemas:
        return RecordSchemas(value, keys, topic=topic, layout=layout, registry=registry, folder=folder)

    return lambda pipeline: source(
        pipeline.table, pipeline.topic, pipeline.value, pipeline.record_key, pipeline.layout
    )
