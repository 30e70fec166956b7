"""The gateway: its streams, the slots of each, and what all of them share. It knows no protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.config.gateway import GatewaySettings, StreamSettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.gateway.lane import Lane, LaneLook
from spark_jobs.gateway.limits import Buckets
from spark_jobs.gateway.messages import Batch
from spark_jobs.gateway.metrics import GatewayMetrics
from spark_jobs.gateway.spool import Spool
from spark_jobs.gateway.topics import Owner, StreamTopics
from spark_jobs.gateway.words import Answer, Nack, Reason, State, slot_of
from spark_jobs.gateway.writer import Writer
from spark_jobs.protocol.errors import ConfigError, SluiceError

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.gateway.waiting import Listener

_OWNER_SECONDS = 5.0
_STATES = list(State)


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the streams; ``pipeline`` is what drains its topic, None where none is configured."""

    name: str
    settings: StreamSettings
    topics: StreamTopics
    lanes: Mapping[int, Lane]
    pipeline: PipelineConfig | None


class Gateway:
    """``url`` is where others are sent to for its sources; ``on_end`` is told when it cannot go on."""

    def __init__(
        self,
        settings: GatewaySettings,
        pipelines: Iterable[PipelineConfig],
        connections: Connections,
        *,
        home: Path,
        url: str,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the spool. Raises ``ConfigError`` and ``RetryableError``: ``gateway-spool``."""
        self.settings = settings
        self.connections = connections
        self.spool = Spool(home / settings.spool.path, settings.spool.max_bytes)
        self.connected = 0
        self.metrics = GatewayMetrics(self.spool.size, lambda: self.connected, time.time)
        self.addresses = Buckets(settings.rates.address)
        self._own = Owner(url, uuid.uuid4().hex)
        self._on_end = on_end
        self._is_closing = False
        self._owners: dict[tuple[str, int], tuple[float, Owner | None]] = {}
        drained = {pipeline.topic: pipeline for pipeline in pipelines}
        self.streams = {
            name: self._stream(name, stream, drained.get(stream.topic))
            for name, stream in settings.streams.items()
        }

    def start(self) -> None:
        """Take the slots.

        Raises ``ConfigError`` (``gateway-spool-foreign``) where the spool has batches of others.
        """
        own = {(each.settings.topic, slot) for each in self.streams.values() for slot in each.lanes}
        if foreign := sorted(self.spool.slots() - own):
            topic, slot = foreign[0]
            raise ConfigError(
                f"the spool has batches of slot {slot}, which is not this gateway's",
                code="gateway-spool-foreign",
                hint="Have them sent: ./sluice gateway --drain-spool. Then start it with the new `sources`.",
                topic=topic,
            )
        for lane in self._lanes():
            lane.start()

    def close(self) -> None:
        """Bring what was taken somewhere, take nothing more, and close the spool; safe to repeat."""
        if not self._is_closing:
            self._is_closing = True
            for lane in self._lanes():
                lane.tell_to_close()
            for lane in self._lanes():
                lane.join()
            self.spool.close()

    @property
    def ended(self) -> SluiceError | None:
        """Return why the gateway cannot go on, None while it can."""
        return next((lane.ended for lane in self._lanes() if lane.ended is not None), None)

    def offer(self, stream: Stream, batch: Batch, listener: Listener) -> Answer | None:
        """Take a batch, or answer at once; the source's slot must be ours. See ``Lane.offer``."""
        came = time.monotonic()
        self.metrics.came(stream.name, batch.size_bytes)
        is_first = True

        def told(answer: Answer) -> None:
            nonlocal is_first
            self.metrics.told(stream.name, answer, time.monotonic() - came if is_first else None)
            is_first = False
            listener(answer)

        answer = stream.lanes[slot_of(batch.source)].offer(batch, told)
        if answer is not None:
            self.metrics.told(stream.name, answer, time.monotonic() - came if is_first else None)
            is_first = False
        return answer

    def elsewhere(self, stream: Stream, source: str) -> Nack | None:
        """Return where a source belongs that is not ours, None for one that is. It may ask Kafka."""
        slot = slot_of(source)
        if slot in stream.lanes:
            return None
        known = self._owners.get((stream.name, slot))
        if known is None or time.monotonic() - known[0] > _OWNER_SECONDS:
            try:
                known = (time.monotonic(), stream.topics.owner(slot))
            except SluiceError:
                known = (time.monotonic(), None)
            self._owners[stream.name, slot] = known
        owner = known[1]
        return Nack(
            Reason.INVALID_FORMAT,
            f"this gateway has the sources of slots {self.settings.sources_text}, not of slot {slot}",
            field="sourceId",
            gateway=None if owner is None else f"{owner.url}/v1/streams/{stream.name}",
        )

    def look(self) -> dict[str, Any]:
        """Return the state of all, as it is told."""
        looks = [lane.look() for lane in self._lanes()]
        size = self.spool.size()
        age_ms = None if size.oldest_ms is None else max(0, round(time.time() * 1000) - size.oldest_ms)
        return {
            "state": _worst(looks),
            "isReady": not self._is_closing and all(each.is_open for each in looks),
            "sources": self.settings.sources_text,
            "buffer": {
                "batches": sum(each.batches for each in looks),
                "bytes": sum(each.bytes for each in looks),
                "used": round(max((each.used for each in looks), default=0.0), 3),
            },
            "spool": {"batches": size.batches, "bytes": size.bytes, "oldestAgeMs": age_ms},
            "connectedSources": self.connected,
        }

    def _stream(self, name: str, settings: StreamSettings, pipeline: PipelineConfig | None) -> Stream:
        connections = self.connections
        topics = StreamTopics(
            connections.kafka, connections.admin, settings.topic, self.settings.event_ids_seconds
        )
        lanes = {slot: self._lane(topics, slot) for slot in self.settings.sources}
        return Stream(name, settings, topics, lanes, pipeline)

    def _lane(self, topics: StreamTopics, slot: int) -> Lane:
        def reach(place: str) -> None:
            self.connections.fail_points.reach(f"gateway.{place}")

        writer = Writer(topics, slot, self._own, reach)
        return Lane(
            writer,
            self.spool,
            (topics.topic, slot),
            ids_seconds=self.settings.event_ids_seconds,
            reach=reach,
            on_end=self._ended,
        )

    def _ended(self) -> None:
        if not self._is_closing:
            self._on_end()

    def _lanes(self) -> list[Lane]:
        return [lane for stream in self.streams.values() for lane in stream.lanes.values()]


def _worst(looks: Iterable[LaneLook]) -> State:
    return max((each.state for each in looks), key=_STATES.index, default=State.READY)


def drained_by(settings: GatewaySettings, slots: set[tuple[str, int]]) -> GatewaySettings:
    """Return the settings of a gateway that has the spool's slots, to have them sent and end."""
    topics = sorted({topic for topic, _ in slots})
    streams = {topic: StreamSettings(topic=topic) for topic in topics}
    own = tuple(sorted({slot for _, slot in slots}))
    return settings.model_copy(update={"streams": streams, "sources": own})
