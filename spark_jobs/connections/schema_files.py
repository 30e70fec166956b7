"""A schema in a file, with the files that it may refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.writer_schema import Language, SchemaText

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
        raise ConfigError(
            f"the schema file {name} cannot be read: {error}",
            code="schema-unreadable",
            hint=f"`{section}: {{file: …}}` is a path below the folder of sluice.yaml.",
        ) from error
    return SchemaText(language, text, imports)


def _importable(folder: Path, suffix: str) -> Iterator[tuple[str, str]]:
    """Return the files that a schema may refer to, by the name it does so."""
    for file in sorted(folder.rglob(f"*{suffix}")):
        yield file.relative_to(folder).as_posix(), file.read_text(encoding="utf-8")
