"""A few of librdkafka's own figures about one consumer: what was fetched, how fast brokers answer, errors."""

from __future__ import annotations

import json
from typing import Any

INTERVAL_MS = "200"
RTT_P99_US = "rtt_p99_us"


class ClientStatistics:
    """Given to librdkafka as ``stats_cb``. A consumer that lived for less than the interval tells nothing.

    ``latest`` has bytes and messages received, broker errors, and the slowest round trip (99 %) in µs.
    """

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}

    def __call__(self, text: str) -> None:
        """Keep the newest sums and the slowest round trip so far: an interval may be without requests."""
        try:
            told = json.loads(text)
            brokers = [broker for broker in told["brokers"].values() if broker["nodeid"] >= 0]
            round_trips = [int(broker["rtt"]["p99"]) for broker in brokers]
            self.latest = {
                "received_bytes": int(told["rx_bytes"]),
                "received_messages": int(told["rxmsgs"]),
                "errors": sum(b["rxerrs"] + b["txerrs"] + b["req_timeouts"] for b in brokers),
                RTT_P99_US: max([*round_trips, self.latest.get(RTT_P99_US, 0)]),
            }
        except (ValueError, KeyError, TypeError):
            return  # another librdkafka's words: figures about the work never stop it


def add_up(figures: list[dict[str, int]]) -> dict[str, Any]:
    """Return all consumers of a batch together: sums, and of round trips the slowest."""
    names = dict.fromkeys(name for each in figures for name in each)
    return {
        name: (max if name == RTT_P99_US else sum)(each.get(name, 0) for each in figures) for name in names
    }
