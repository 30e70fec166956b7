"""``route`` of ``sluice.yaml``: which records become rows of other tables. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from spark_jobs.config.frozen import Frozen, key
from spark_jobs.config.problems import Finding
from spark_jobs.config.values import Table, parsed


class RouteSettings(Frozen):
    """Records of one topic as rows of several tables (docs/SHAPES.md)."""

    by: Annotated[str, parsed(str)] | None = key(
        None,
        "A DuckDB expression over one record, whose value says which table its row goes to.",
        shown="none",
    )
    tables: dict[str, Table] = Field(
        default_factory=dict,
        description="The table of each value, `refund: sales.refunds`; rows of other values stay in the"
        " pipeline's own. `{topic}` is as in `table`.",
    )


def check_route(route: RouteSettings, *, is_archive: bool) -> Iterator[Finding]:
    """Yield what is wrong with it but for its expression."""
    if route == RouteSettings():
        return
    if is_archive:
        hint = "Leave it out: an archive has every record, and a pipeline of its own can have the rows."
        yield Finding(("route",), "is not said of an archive", hint)
    elif route.by is None:
        yield Finding(("route",), "has no by", 'Write by: "kind", an expression over one record.')
    elif not route.tables:
        yield Finding(("route",), "has no tables", "Write tables: {refund: sales.refunds}.")


def check_route_tables(route: RouteSettings, table: str, beside: Mapping[str, str]) -> Finding | None:
    """Return which routed table is one that the pipeline writes otherwise, ``beside`` by lower case."""
    for value, routed in route.tables.items():
        if routed != table and routed.lower() in beside:
            told = f"{routed} is {beside[routed.lower()]}"
            hint = f"Give it another name; {table} itself says that these rows stay there."
            return Finding(("route", "tables", value), told, hint)
    return None
