"""Sample stream of ``up``: a child process that produces flights and weather every 100 ms.

``python -m cli.stand.sample_stream STATE_FOLDER``. Ends with its parent, or on SIGTERM.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping

from cli.stand.sample_data import (
    FLIGHTS,
    WEATHER,
    Delivery,
    SampleRecord,
    SampleTopic,
    end_offsets,
    lacking,
    read_sample,
)
from spark_jobs.connections.endpoints import embedded_kafka

TICK_SECONDS = 0.1
RECORDS_PER_TICK = {FLIGHTS: 20, WEATHER: 2}


def endless_sample(sample: SampleTopic, ends: Mapping[int, int]) -> Iterator[SampleRecord]:
    """Yield the sample records that the topic lacks, then the sample repeatedly."""
    yield from lacking(sample, ends if sum(ends.values()) < sample.records else {})
    for _ in itertools.count():
        yield from read_sample(sample)


def stream(properties: Mapping[str, str]) -> None:
    """Produce until the parent process ends."""
    parent = os.getppid()
    delivery = Delivery(properties)
    sources = {
        sample: endless_sample(sample, end_offsets(properties, sample.topic)) for sample in RECORDS_PER_TICK
    }
    next_tick = time.monotonic()
    while os.getppid() == parent:
        for sample, records in sources.items():
            for record in itertools.islice(records, RECORDS_PER_TICK[sample]):
                delivery.send(sample.topic, record)
        delivery.poll()
        next_tick = max(next_tick + TICK_SECONDS, time.monotonic() - 1)
        time.sleep(max(0.0, next_tick - time.monotonic()))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the group; `up` decides the order of ending
    stream(embedded_kafka(sys.argv[1]))
