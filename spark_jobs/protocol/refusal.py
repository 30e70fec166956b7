"""Whether a drain would be refused: one judgement for the drain, its sensor, checks and ``status``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import OffsetsUnavailable, SluiceError
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, check_identity


def drain_refusal(
    progress: Progress,
    source: SourceState,
    *,
    table: str,
    ask_leader: Callable[[int], OffsetsUnavailable | None] | None,
) -> SluiceError | None:
    """Return the error with which planning a drain of the table would stop, or None.

    In this order: the source is another one (``SourceChanged``), Kafka does not hold a next offset, or its
    log was cut below one (``OffsetsUnavailable``). Only a partition's leader knows the last: ``ask_leader``
    gives its answer for one partition and may raise what asking raises; with None no leader is asked, and a
    log that was cut and grew again goes unnoticed here. What the table alone shows is for ``check_anchor``.
    """
    try:
        check_identity(progress, source, table=table)
        check_starts(progress.next_offsets, source)
        if ask_leader is None:
            return None
        answers = map(ask_leader, sorted(progress.next_offsets))
        return next((cut for cut in answers if cut is not None), None)
    except SluiceError as error:
        return error


def has_new_leader(progress: Progress, source: SourceState, partition: int) -> bool:
    """True if a partition that has something to read is led by another leader than at the last batch.

    False where either leader is not known: tables and brokers from before epochs were counted have none.
    """
    if partition not in progress.leader_epochs or partition not in source.leader_epochs:
        return False
    _, epoch = progress.leader_epochs[partition]
    waits = progress.next_offsets[partition] < source.end[partition]
    return waits and source.leader_epochs[partition] != epoch


def check_starts(starts: Mapping[int, int], source: SourceState) -> None:
    """Raise ``OffsetsUnavailable`` when reading a partition cannot begin at its offset in ``starts``."""
    for partition, start in sorted(starts.items()):
        _check_start(source, partition, start)


def _check_start(source: SourceState, partition: int, start: int) -> None:
    """Raise ``OffsetsUnavailable`` when reading cannot begin at ``start``."""
    low, end = source.low[partition], source.end[partition]
    if start < low:
        raise OffsetsUnavailable(
            f"Kafka's retention has removed offsets {start} to {low - 1} before they were drained",
            code="retention-passed",
            hint="Those records are lost to Sluice. Raise the topic's retention, then go on from the earliest"
            f" offset that is left: {mends.act('skip', 'PIPELINE', f'{partition}:{start}-{low}')}.",
            topic=source.topic,
            partition=partition,
        )
    if start > end:
        raise OffsetsUnavailable(
            f"the log ends at offset {end}, below offset {start} that the table has reached",
            code="log-truncated",
            hint="Kafka lost records that the table has (unclean leader election, a restored broker)."
            f" {mends.command('source', 'PIPELINE')} compares the last rows with the topic;"
            " with --accept the table takes what is left in as its next generation and keeps its rows.",
            topic=source.topic,
            partition=partition,
        )
