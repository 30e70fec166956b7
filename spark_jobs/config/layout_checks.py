"""What cannot be said of a layout. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spark_jobs.config.problems import Finding
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.config.suites import OnFailure, When
from spark_jobs.protocol.layout import LAYOUTS, layout_named

_UNSAID = PipelineSettings()


def check_layout(
    entry: PipelineSettings, own: PipelineSettings, sources: Collection[str]
) -> Iterator[Finding]:
    """Yield what cannot be said of a pipeline of its layout; ``own`` is what its own entry says."""
    layout = entry.layout
    for name, hint in layout.not_said.items():
        if getattr(entry, name) != getattr(_UNSAID, name):
            yield Finding((name,), f"is not said of {layout.called}", hint)
    rejecting = [each.name for each in entry.quality if each.on_failure is OnFailure.DEAD_LETTERS]
    if rejecting and layout.no_row_may_go:
        told = f"has a gate that takes rows out of {layout.called}: {', '.join(rejecting)}"
        yield Finding(("quality",), told, layout.no_row_may_go)
    yield from _check_hot(entry)
    if "route" not in layout.not_said:
        yield from _check_route(entry)
    for name, section in (("cdc", own.cdc), ("mirror", own.mirror)):
        if section.model_fields_set and name not in layout.sections:
            others = " or ".join(each for each in LAYOUTS if name in layout_named(each).sections)
            told = f"is said of a pipeline of layout {layout}"
            yield Finding((name,), told, f"Add layout: {others}, or leave it out.")
    yield from layout.findings(entry, sources)


def _check_hot(entry: PipelineSettings) -> Iterator[Finding]:
    """Yield why a pipeline's records cannot be shown before they are drained."""
    gates = [each.name for each in entry.quality if each.when is When.GATE]
    if entry.hot is not None and gates:
        told = f"is said of a pipeline with a gate: {', '.join(gates)}"
        yield Finding(("hot",), told, "Write hot: false: nobody has judged the rows that it would show.")
    elif entry.hot is not None and entry.route != _UNSAID.route:
        hint = "Write hot: false: an answer is over one table, and its records become rows of several."
        yield Finding(("hot",), "is said beside route", hint)


def _check_route(entry: PipelineSettings) -> Iterator[Finding]:
    """Yield what is wrong with it but for its expression."""
    if entry.route == _UNSAID.route:
        return
    if entry.route.by is None:
        yield Finding(("route",), "has no by", 'Write by: "kind", an expression over one record.')
    elif not entry.route.tables:
        yield Finding(("route",), "has no tables", "Write tables: {refund: sales.refunds}.")
