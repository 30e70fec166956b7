"""The archive layout: a row per record, with its bytes and its readable parts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spark_jobs.config.problems import Finding, mistake
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.layouts.flat import Flat
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.work import Above, Layout

_HAS_ALL = "Remove it: an archive holds every record. Use a second pipeline for selected rows."


class Archive(Flat):
    """Every record is a row, whatever it contains."""

    __slots__ = ()
    tells_source_events = False
    stored = "archive"
    clash = "column-clash"
    rewrite_commands = ("replay",)
    dead_letter_commands = ("replay", "--all")
    partitions = ("_kafka_partition",)  # a file is of one of Kafka's
    key_is_binary = True
    rows = Above("records.layouts.archive.archive")
    of_keys = Above("schema.schema_views.KeyStruct")
    not_compared = frozenset({"kafka"})  # with the time of ingestion; coordinates stand beside it
    unread = "unreadable values are stored as bytes only"
    called = "an archive"
    not_said = {
        "columns": "Remove it: every archive has the same columns.",
        "filter": _HAS_ALL,
        "route": _HAS_ALL,
        "partition_by": "Remove it: an archive is always partitioned by _kafka_partition.",
        "sort_by": "Remove it: an archive's rows are always in the order of their offsets.",
        "hot": "Set hot: false: an archive stores when each row was ingested, unknown before the commit.",
    }
    no_row_may_go = "Set on_failure: hold: an archive holds every record."
    refused = {
        "rebuild": Layout.refused["rebuild"],
        "redrive": lambda **at: fault("redrive-archive", **at),
        "retype": lambda **at: fault("cannot-retype.archive", **at),
    }

    def findings(self, entry: PipelineSettings, sources: Collection[str]) -> Iterator[Finding]:
        """See ``Layout``."""
        if "column" in entry.record_key.model_fields_set:
            yield mistake(
                "not-said-of", ("key", "as"), called=self.called, how="Remove it: the column is always `key`."
            )

    def unlike(self, *, name: str, own: str, there: str, kind: str, is_declared: bool) -> SluiceError:
        """See ``Flat``."""
        return fault("schema-incompatible.archive", name=name, own=own, found=there, kind=kind)


LAYOUT = Archive("archive")
