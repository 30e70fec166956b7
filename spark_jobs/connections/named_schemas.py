"""Schemas that the configuration names: in a file, or as a version of a subject."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from spark_jobs.config.value_format import SchemaPlace
from spark_jobs.protocol.errors import RetryableError, fault
from spark_jobs.protocol.offsets import SchemaKey, SchemaSpan, Spans, spans_of
from spark_jobs.protocol.progress import Progress
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.writer_schema import Language, SchemaText

# Which version of a subject reads records that name no schema: asked for whenever a drain is planned.


_log = logging.getLogger(__name__)


class SubjectVersion:
    """Of the values, or of the keys; ``take`` is given each schema that a registry answers with."""

    def __init__(
        self,
        place: SchemaPlace,
        subject: str,
        *,
        of_key: bool,
        registry: Callable[[str], SchemaStore],
        take: Callable[[SchemaKey, SchemaText], None],
    ) -> None:
        self._place = place
        self._subject = subject
        self._of_key = of_key
        self._registry = registry
        self._take = take
        self._key: SchemaKey | None = None

    def key(self, progress: Progress | None) -> SchemaKey:
        """Return what was asked for last. Raises as ``SchemaStore.version``."""
        if self._key is None:
            self._key = self._asked_for(progress)
        return self._key

    def ask(self, progress: Progress) -> None:
        """Ask anew; while the registry is away it stays the last one of the table, unless it has a number."""
        try:
            self._key = self._asked_for(progress)
        except RetryableError as error:
            kept = self.kept(progress)
            if error.code != "registry-away" or self._place.version is not None or not kept:
                raise
            self._key = kept[-1].key
            told = "%s; %s is read by schema %s, the last one of the table"
            _log.warning(told, error.message, self._subject, self._key)

    def kept(self, progress: Progress | None) -> Spans:
        """Return what the table keeps of it."""
        return spans_of(progress.schema_spans, of_key=self._of_key) if progress else ()

    def spans(self, progress: Progress | None) -> Spans:
        """Return what reads which records: all the version of now, where the table keeps nothing."""
        return self.kept(progress) or (SchemaSpan(self.key(progress), {}),)

    def _asked_for(self, progress: Progress | None) -> SchemaKey:
        registry, version = str(self._place.registry), self._place.version
        expected = {key.schema_id: digest for key, digest in progress.schemas.items()} if progress else {}
        schema_id, text = self._registry(registry).version(self._subject, version, expected)
        key = SchemaKey(schema_id, of_key=self._of_key)
        if key != self._key:
            told = "the registry %s has schema %s as version %s of %s"
            _log.info(told, registry, schema_id, version or "latest", self._subject)
        self._take(key, text)
        return key


# A schema in a file, with the files that it may refer to.


_SUFFIXES = {Language.PROTOBUF: ".proto", Language.JSON_SCHEMA: ".json"}  # of what may be referred to


def read_file(
    language: Language, folder: Path, name: str, include: Sequence[str], section: str
) -> SchemaText:
    """Return the schema that a ``section`` of a pipeline names; paths are below the folder.

    Raises ``ConfigError`` (``schema-unreadable``).
    """
    try:
        text = (folder / name).read_text(encoding="utf-8")
        suffix = _SUFFIXES.get(language)
        places = [folder / each for each in include] if suffix else []
        imports = tuple(each for place in places for each in _importable(place, str(suffix)))
    except (OSError, UnicodeDecodeError) as error:
        raise fault("schema-unreadable.file", name=name, why=error, section=section) from error
    return SchemaText(language, text, imports)


def _importable(folder: Path, suffix: str) -> Iterator[tuple[str, str]]:
    """Return the files that a schema may refer to, by the name it does so."""
    for file in sorted(folder.rglob(f"*{suffix}")):
        yield file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8")
