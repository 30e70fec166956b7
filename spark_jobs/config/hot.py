"""``hot``: whether queries may see what Kafka has beyond a pipeline's table. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import BeforeValidator

from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.problems import Finding, UnreadableValueError
from spark_jobs.config.routes import RouteSettings
from spark_jobs.config.value_format import Layout
from spark_jobs.config.values import Size


class HotSettings(Frozen):
    """What of Kafka queries with `--fresh` see; `hot: true` is the section with its defaults."""

    memory_bytes: Size = key(
        "500MB",
        "Most bytes that records beyond the table may take once they are rows; beyond it a query that reads"
        " them itself is refused (`too-far-behind`), and `serve` takes in no more until some are drained.",
        alias="memory",
    )


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    if value not in {"true", "false"}:
        raise UnreadableValueError(f"{value!r} is neither true nor false", "Write hot: true, or a map.")
    return {} if value == "true" else None


Hot = Annotated[HotSettings | None, BeforeValidator(_read, json_schema_input_type=bool | HotSettings | None)]


def check_hot(
    hot: HotSettings | None, layout: Layout, gates: Collection[str], route: RouteSettings
) -> Finding | None:
    """Return why a pipeline's records cannot be shown before they are drained; ``gates`` are its suites."""
    if hot is None:
        return None
    if gates:
        told = f"is said of a pipeline with a gate: {', '.join(gates)}"
        return Finding(("hot",), told, "Write hot: false: nobody has judged the rows that it would show.")
    if layout is Layout.ARCHIVE:
        hint = "Write hot: false: an archive says of each row when it came in, which nobody knows yet."
        return Finding(("hot",), "is said of an archive", hint)
    if route != RouteSettings():
        hint = "Write hot: false: an answer is over one table, and its records become rows of several."
        return Finding(("hot",), "is said beside route", hint)
    return None
