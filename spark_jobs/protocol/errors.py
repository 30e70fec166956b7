"""Errors that Sluice raises on purpose, by what the caller does about them. Pure.

    SluiceError
    ├── RetryableError       a broker, catalog or store is away: try again later, bounded
    ├── CommitConflict       somebody else drained this range: stop, delete nothing, plan again
    ├── CommitStateUnknown   the catalog may or may not have committed: read back, never repeat blindly
    ├── OffsetsUnavailable   Kafka no longer holds the range: stop, an operator decides
    ├── SourceChanged        the topic or the table is not the one that was drained: stop, an operator decides
    ├── BatchHeld            a batch does not meet a quality gate: nothing is committed, an operator decides
    ├── BadRecord            one record cannot become a row: it becomes a dead letter
    ├── ConfigError          the configuration or the set-up is wrong: fatal until it is changed
    ├── CorruptLog           the log or a table's properties contradict themselves: fatal, an operator decides
    └── Unexpected           an error that nobody foresaw: it is reported

A kind is a class; the particular error is its ``code``, which is also its anchor in docs/reference/errors.md.
What each says stands in errors.toml; ``fault`` makes it.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from spark_jobs.protocol.offsets import OffsetRanges


class SluiceError(Exception):
    """An error with coordinates, and a hint with the fix.

    ``code`` is a stable slug; ``where`` maps names (``pipeline``, ``table``, ``batch``, ``range``) to values.
    ``before`` are a batch's ranges up to the records that stop it, which may be committed; None: none may.
    """

    exit_code: ClassVar[int] = 1
    is_retryable: ClassVar[bool] = False
    before: OffsetRanges | None = None

    def __init__(self, message: str, *, code: str, hint: str, **where: object) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.where = {name: str(value) for name, value in where.items() if value is not None}

    def name_pipeline(self, pipeline: str) -> None:
        """Name the pipeline in the hint's commands, and next to a message with no pipeline, table, topic."""
        self.hint = self.hint.replace("PIPELINE", pipeline)
        if not self.where.keys() & {"pipeline", "table", "topic"}:
            self.where["pipeline"] = pipeline

    def __str__(self) -> str:
        coordinates = ", ".join(f"{name} {value}" for name, value in self.where.items())
        return f"{self.message}{f' ({coordinates})' if coordinates else ''} [{self.code}] {self.hint}"

    def __reduce__(self) -> tuple[object, ...]:
        return _restore, (type(self), self.message, self.code, self.hint, self.where)


def _restore(
    kind: type[SluiceError], message: str, code: str, hint: str, where: dict[str, str]
) -> SluiceError:
    return kind(message, code=code, hint=hint, **where)


class RetryableError(SluiceError):
    """A broker, catalog, store or Spark server did not answer; a later run may succeed."""

    exit_code = 75
    is_retryable = True


class CommitConflict(SluiceError):
    """Another run committed this range and moved the offsets. Its files may be ours: delete nothing."""

    exit_code = 76


class CommitStateUnknown(SluiceError):
    """A commit was sent and its outcome is unknown. The next recovery determines it."""

    exit_code = 75
    is_retryable = True


class OffsetsUnavailable(SluiceError):
    """Kafka no longer has the range; continuing would lose records silently."""

    exit_code = 65


class SourceChanged(SluiceError):
    """The topic was re-created or moved, or the table rolled back or rewritten, since the last commit."""

    exit_code = 65


class BatchHeld(SluiceError):
    """A batch was written but failed a quality gate: later batches wait until an operator decides."""

    exit_code = 65


class BadRecord(SluiceError):
    """A record that cannot become a row; its coordinates name the failed phase and field."""

    exit_code = 65


class ConfigError(SluiceError):
    """The configuration, the permissions or the machine's setup must be changed first."""

    exit_code = 78


class CorruptLog(SluiceError):
    """A log object or the table's properties are damaged, or of a newer version."""

    exit_code = 70


class Unexpected(SluiceError):
    """An error without a name in Sluice: a bug in Sluice or in a library."""

    exit_code = 70


KINDS: dict[str, type[SluiceError]] = {kind.__name__: kind for kind in SluiceError.__subclasses__()}


def fault(name: str, /, **places: object) -> SluiceError:
    """Return the error with this name in errors.toml: a code, or ``code.way`` for one of several variants.

    ``places`` fill its texts. Those that are coordinates, or in no text, are told beside the message too.
    """
    code, _, way = name.partition(".")
    catalogue, coordinates = _catalogue()
    texts = {**catalogue["unexpected"], **catalogue.get(code, {}), **catalogue.get(code, {}).get(way, {})}
    message, hint = (_filled(texts[part], places) for part in ("message", "hint"))
    in_texts = set(re.findall(r"\{(\w+)", texts["message"] + texts["hint"])) - coordinates
    where = {place: value for place, value in places.items() if place not in in_texts}
    return KINDS[texts["kind"]](message, code=code, hint=hint, **where)


def _filled(text: str, places: Mapping[str, object]) -> str:
    """Return the text with its placeholders filled; if some are missing, the values are appended."""
    try:
        return text.format_map(places)
    except (LookupError, ValueError):
        return f"{text} {places}"


@functools.cache
def _catalogue() -> tuple[dict[str, Any], frozenset[str]]:
    """Return the texts of errors by code, and the names of coordinates; works in a shipped zip too."""
    catalogue = tomllib.loads((pkgutil.get_data(__package__, "errors.toml") or b"").decode())
    return catalogue, frozenset(catalogue.pop("coordinates"))


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Name the missing extra if an import in the body fails. Raises ``ConfigError``."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise fault(
            "extra-missing.asked-for" if extra in {"glue", "msk", "postgres"} else "extra-missing",
            package=error.name,
            extra=extra,
        ) from error


def named(error: Exception, command: str) -> SluiceError:
    """Return the error, as ``unexpected`` without a code; ``command`` is to be run with --debug."""
    return (
        error
        if isinstance(error, SluiceError)
        else fault("unexpected", why=first_line(error), command=command)
    )


# Of a SAS token; errors have its parts in any order.
SIGNATURE = re.compile(r"(?<=\bsig=)[^&\s']+")


def first_line(error: Exception) -> str:
    """Return a library's exception as one line: its type and the first line of its text."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {without_signature(lines[0])}" if lines else type(error).__name__


def without_signature(text: str) -> str:
    """Return the text without signatures of Azure's SAS tokens: errors have a request's whole address."""
    return SIGNATURE.sub("***", text)


def error_to_json(error: SluiceError) -> dict[str, Any]:
    """Return the error as plain data, for a boundary that loses exception types (a Spark task's result)."""
    return {
        "kind": type(error).__name__,
        "message": error.message,
        "code": error.code,
        "hint": error.hint,
        "where": error.where,
    }


def error_from_json(value: dict[str, Any]) -> SluiceError:
    """Return the error of ``error_to_json``, of the same kind."""
    return _restore(KINDS[value["kind"]], value["message"], value["code"], value["hint"], value["where"])
