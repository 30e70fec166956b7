"""A batch as records: events that are known left out, the others numbered within their source."""

from __future__ import annotations

from collections.abc import Container, Iterator

from spark_jobs.gateway.messages import Batch
from spark_jobs.gateway.topics import BATCH_ID, EVENT, EVENT_ID, SEQUENCE, SOURCE, Ids, Stand
from spark_jobs.gateway.writer import Outgoing


def records_of(
    batch: Batch, stand: Stand, known: Container[tuple[str, str, str]], new: Ids, now: float | None
) -> Iterator[Outgoing]:
    """Yield the records of events that are neither ``known`` nor ``new``; their ids are ``new`` from then on.

    They are numbered from where their source stands; there are none of a batch whose own id is known. Ids
    are of the time ``now``; None remembers none.
    """
    own = [(SOURCE, batch.source.encode()), (SEQUENCE, str(batch.sequence).encode())]
    if batch.id is not None:
        own.append((BATCH_ID, batch.id.encode()))
        if now is not None:
            if (name := (batch.source, BATCH_ID, batch.id)) in new or name in known:
                return
            new[name] = now
    number = stand.events
    for event in batch.events:
        headers = own
        if event.id is not None:
            name = (batch.source, EVENT_ID, event.id)
            if now is not None:
                if name in new or name in known:
                    continue
                new[name] = now
            headers = [*own, (EVENT_ID, event.id.encode())]
        number += 1
        yield Outgoing(event.key, event.value, [*headers, (EVENT, str(number).encode())])
