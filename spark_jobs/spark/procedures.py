"""Calls of Iceberg's Spark procedures on the session's catalog."""

from __future__ import annotations

import datetime as dt
import random
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.spark.tasks import SPARK_FAILURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Row, SparkSession

    Argument: TypeAlias = str | int | bool | dt.datetime | Mapping[str, object]

TRIES = 3
# A drain commits every few seconds at most: after these its next commit is as far away as it will be.
PAUSES_SECONDS = (0.5, 2.0)
# Iceberg retries its commits by itself; these are what is left when that did not help.
_CONFLICT = re.compile(r"CommitFailedException|ValidationException|SQLITE_BUSY|database is locked")
_UNSUPPORTED = "Spark does not support time fields"
_WITHOUT_ICEBERG = re.compile(r"ClassNotFoundException|CATALOG_NOT_FOUND|Cannot find catalog plugin class")


def call_procedure(
    spark: SparkSession, catalog: str, procedure: str, arguments: Mapping[str, Argument], *, tag: str
) -> list[Row]:
    """Run ``catalog.system.procedure``, at most ``TRIES`` times after conflicts.

    Every procedure does what is left to do, so a repeated one is no second one. ``tag`` is what another
    process interrupts it by. Raises ``RetryableError`` when Spark, the catalog or the storage failed or
    conflicts did not end, ``CommitConflict`` when another process took over, ``ConfigError`` for a Spark
    without Iceberg.
    """
    named = ", ".join(f"{name} => {_literal(value)}" for name, value in arguments.items())
    statement = f"CALL {_quoted(catalog)}.system.{procedure}({named})"
    for pause in (*PAUSES_SECONDS, None):
        try:
            return _tagged(spark, statement, tag)
        except SPARK_FAILURES as error:
            if pause is None or not _CONFLICT.search(str(error)):
                raise _failure(error, procedure) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  (spreads competing writers)
    raise AssertionError("unreachable")


def refuse_without(spark: SparkSession, java_class: str, procedure: str) -> None:
    """Raise ``ConfigError`` (``spark-without-iceberg``) at once; Iceberg tries on for almost two minutes."""
    try:
        (found,) = spark.sql(f"SELECT try_reflect('java.lang.Class', 'forName', '{java_class}')").collect()
    except SPARK_FAILURES as error:
        raise _failure(error, procedure) from error
    if found[0] is None:
        raise fault("spark-without-iceberg", why=f"it lacks {java_class}", procedure=procedure)


def table_argument(catalog: str, identifier: str) -> str:
    """Return the table's name as procedures parse it, with any characters.

    Without the catalog a namespace of a catalog's name would be taken for that catalog.
    """
    return ".".join(_quoted(part) for part in (catalog, *identifier.split(".")))


def _tagged(spark: SparkSession, statement: str, tag: str) -> list[Row]:
    spark.addTag(tag)
    try:
        return spark.sql(statement).collect()
    finally:
        with suppress(*SPARK_FAILURES):  # a server that is gone has no tags either
            spark.removeTag(tag)


def _literal(value: Argument) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.astimezone(dt.UTC).isoformat(timespec='milliseconds')}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    pairs = (f"{_literal(name)}, {_literal(str(option))}" for name, option in value.items())
    return f"map({', '.join(pairs)})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _failure(error: Exception, procedure: str) -> SluiceError:
    text = str(error)
    reason = scrub(text.strip().splitlines()[0] if text.strip() else type(error).__name__)[:300]
    if "OPERATION_CANCELED" in text:
        return fault("taken-over.upkeep", procedure=procedure)
    if _WITHOUT_ICEBERG.search(text):
        return fault("spark-without-iceberg", why=reason, procedure=procedure)
    if _UNSUPPORTED in text:
        return fault("spark-type", why=reason, procedure=procedure)
    if _CONFLICT.search(text):
        return fault("upkeep-crowded-out", tries=TRIES, why=reason, procedure=procedure)
    return fault("upkeep-failed", why=reason, procedure=procedure)
