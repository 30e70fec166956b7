"""Schemas named by the configuration: in a file, or as a version of a subject."""

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
    """Version of a subject for values or keys; ``take`` receives each schema from the registry."""

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
        """Return the version requested last. Raises like ``SchemaStore.version``."""
        if self._key is None:
            self._key = self._requested(progress)
        return self._key

    def ask(self, progress: Progress) -> None:
        """Look up the version; while the registry is unavailable, keep the table's last one, if not fixed."""
        try:
            self._key = self._requested(progress)
        except RetryableError as error:
            kept = self.kept(progress)
            if error.code != "registry-away" or self._place.version is not None or not kept:
                raise
            self._key = kept[-1].key
            template = "%s; %s is read by schema %s, the last one of the table"
            _log.warning(template, error.message, self._subject, self._key)

    def kept(self, progress: Progress | None) -> Spans:
        """Return the versions that the table keeps."""
        return spans_of(progress.schema_spans, of_key=self._of_key) if progress else ()

    def spans(self, progress: Progress | None) -> Spans:
        """Return the version for each offset range; the current one if the table keeps none."""
        return self.kept(progress) or (SchemaSpan(self.key(progress), {}),)

    def _requested(self, progress: Progress | None) -> SchemaKey:
        registry, version = str(self._place.registry), self._place.version
        expected = {key.schema_id: digest for key, digest in progress.schemas.items()} if progress else {}
        schema_id, text = self._registry(registry).version(self._subject, version, expected)
        key = SchemaKey(schema_id, of_key=self._of_key)
        if key != self._key:
            template = "the registry %s has schema %s as version %s of %s"
            _log.info(template, registry, schema_id, version or "latest", self._subject)
        self._take(key, text)
        return key


# A schema in a file, with the files that it may refer to.


_SUFFIXES = {Language.PROTOBUF: ".proto", Language.JSON_SCHEMA: ".json"}  # of what may be referred to


def read_file(
    language: Language, folder: Path, name: str, include: Sequence[str], section: str
) -> SchemaText:
    """Return the schema named by a pipeline's ``section``; paths are relative to the folder.

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
    """Return importable schema files by their import names."""
    for file in sorted(folder.rglob(f"*{suffix}")):
        yield file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8")
