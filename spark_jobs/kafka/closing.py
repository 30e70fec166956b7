"""Closing a consumer, which librdkafka may never finish."""

from __future__ import annotations

import logging
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer

CLOSE_TIMEOUT_SECONDS = 2.0

_log = logging.getLogger(__name__)


def close_consumer(consumer: Consumer, topic: str) -> None:
    """Drop the connections.

    Nobody waits long for librdkafka: while it resets an offset, which damaged and missing records make it do,
    its own thread may wait for a lock that it holds, and closing would never end.
    """
    closing = Thread(target=consumer.close, name="close-consumer", daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_SECONDS)
    if closing.is_alive():
        _log.warning("the client that read topic %s does not close; it is left to itself", topic)
