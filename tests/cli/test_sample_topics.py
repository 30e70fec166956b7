"""The sample's topics are made once, and a broker that does not answer is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from cli.stand import sample_data as topics
from cli.stand.sample_data import SAMPLE_TOPICS
from spark_jobs.protocol.errors import RetryableError

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka


def test_topics_that_exist_stay(kafka: KafkaBroker) -> None:
    """A second `demo` finds them."""
    for _ in range(2):
        topics.create_sample_topics({"bootstrap.servers": kafka})
    listed = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
    assert {sample.topic for sample in SAMPLE_TOPICS} <= set(listed)


def test_a_broker_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was for is said; no traceback of a future."""
    monkeypatch.setattr(topics, "ADMIN_SECONDS", 1)
    with pytest.raises(RetryableError, match="making the sample's topics"):
        topics.create_sample_topics({"bootstrap.servers": "127.0.0.1:9"})
