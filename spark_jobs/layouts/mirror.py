"""The mirror layout: the current rows of a database table, the newest change of each key."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

from spark_jobs.config.columns import Incompatible
from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.sections import Envelope, SchemaSettings
from spark_jobs.config.settings import PipelineConfig, PipelineSettings
from spark_jobs.layouts.changes import Changes
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Above

_BESIDE = "Remove it: use a view, or a pipeline with layout: changes, for selected rows."


class Mirror(Changes):
    """One live row per key; it is rebuilt as a whole."""

    __slots__ = ()
    stored = "mirror"
    clash = "column-clash.of-mirror"
    tells_source_events = False
    keeps_newest = True
    rows = Above("records.layouts.changes.mirrored")
    settled = Above("drain.mirror_fold.settled")
    judged = Above("drain.mirror_fold.live_rows")
    stage = Above("commit.batch_commit.stage_keys")
    audit = Above("audit.mirror.audit_mirror")
    traced = Above("audit.trace.traced_key")
    rows_of_key = Above("query.lookup.row_of_spelling")
    identity = ("_cdc_row_id",)
    sorting = ("_cdc_row_id",)  # rows are looked up by key
    sections = frozenset({"cdc", "mirror"})
    called = "a mirror"
    not_said = {
        "filter": _BESIDE,
        "route": "Remove it: the rows of one key would be in two tables.",
        "partition_by": "Remove it: a change could move its row to another partition.",
        "sort_by": "Remove it: compaction sorts the rows of a mirror by key.",
        "hot": "Set hot: false: newer records in Kafka change rows that are already in the table.",
    }
    no_row_may_go = "Set on_failure: hold: without its newest change a row would be wrong."
    rewrite_commands = ("rebuild",)
    dead_letter_commands = ("rebuild",)
    own_checks = frozenset({"exact"})
    # A drain deletes rows of files that compaction writes anew, which Iceberg then refuses.
    of_drains = frozenset({"compaction"})
    found_all = ""
    found = "every key is in the table once, as its newest change has it"
    uncompared = "keys that were last changed in {offsets} were not compared"
    newest_audited = 100_000  # they are folded in memory
    refused = {
        "replay": lambda **at: fault("mirror-replay", **at),
        "redrive": lambda **at: fault("mirror-replay", **at),
        "repartition": lambda **at: fault("cannot-repartition.mirror", **at),
        "retype": lambda **at: fault("cannot-retype.mirror", **at),
        "export": Changes.refused["export"],
    }

    def read_again(self, pipeline: str, ranges: str = "") -> str:
        """See ``Layout``: it is rebuilt as a whole."""
        return mends.act("rebuild", pipeline, quote='"')

    def compared(self, pipeline: str) -> str:
        """See ``Layout``."""
        return mends.command("audit", pipeline)

    def content(self, pipeline: PipelineConfig) -> str:
        """See ``Flat``."""
        return f"One row for each key in the Kafka topic `{pipeline.topic}`, as of its newest change"

    def schema(self, schema: SchemaSettings) -> SchemaSettings:
        """Return the effective policy: it stops at a type that does not fit, unless configured otherwise.

        A column beside the old one would leave rows with the value in either.
        """
        if "incompatible" in schema.model_fields_set:
            return schema
        return schema.model_copy(update={"incompatible": Incompatible.STOP})

    def findings(self, entry: PipelineSettings, sources: Collection[str]) -> Iterator[Finding]:
        """See ``Flat``; its columns come from change events, and its source has a name."""
        for name, column in entry.columns.items():
            if column.sql is not None:
                yield mistake("computed-of-a-change", ("columns", name, "sql"))
        yield from chain(self._of_source(entry, sources), super().findings(entry, sources))

    def _of_source(self, entry: PipelineSettings, sources: Collection[str]) -> Iterator[Finding]:
        source = entry.mirror.source
        if source is None:
            return
        if entry.cdc.envelope is Envelope.UPSERT:
            yield mistake("source-of-upserts", ("mirror", "source"))
        elif source not in sources:
            known = ", ".join(sorted(sources)) or "none"
            yield mistake("no-such-source", ("mirror", "source"), name=source, known=known)

    def unlike(self, *, name: str, own: str, there: str, kind: str, is_declared: bool) -> SluiceError:
        """See ``Flat``."""
        advice = f" Leave {there} out of `columns:`." if is_declared else ""
        return fault("schema-incompatible.mirror", name=name, own=own, found=there, kind=kind, advice=advice)


LAYOUT = Mirror("mirror")
