"""What a client's reports come to: who has to do something, and what mends itself."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from spark_jobs.kafka.errors import ClientTroubles, translate
from spark_jobs.protocol.errors import ConfigError, RetryableError

AWAY = KafkaError(KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: Empty reply")
ENDED = KafkaError(KafkaError._AUTHENTICATION, 'SASL authentication error: {"status":"invalid_token"}')
NO_SUCH_CLIENT = KafkaError(
    KafkaError._AUTHENTICATION, 'Failed to acquire SASL OAUTHBEARER token: {"error": "invalid_client"}'
)
ALERT = KafkaError(KafkaError._TRANSPORT, "Receive failed: ssl/tls alert: SSL alert number 46")


def test_a_token_that_ends_while_the_provider_is_away_is_nobodys_mistake() -> None:
    """The broker refuses it, as it would a wrong one; once the provider gives others, that is a refusal."""
    now = 0.0
    troubles = ClientTroubles(lambda: now)
    troubles(AWAY)
    troubles.forget()  # what was open answered on
    now = 10.0
    troubles(ENDED)
    assert (troubles.refused, troubles.unreachable) == (None, AWAY)
    now = 30.0
    troubles(ENDED)
    now = 45.0
    troubles(ENDED)
    assert troubles.refused is ENDED


def test_a_token_that_ended_before_its_renewal_is_a_refusal_once_others_are_refused_too() -> None:
    """A busy machine, or one that slept, renews late; a client that was never answered has no such excuse."""
    now = 0.0
    troubles = ClientTroubles(lambda: now)
    troubles(ENDED)
    assert troubles.refused is ENDED
    troubles.forget()
    troubles(ENDED)
    assert (troubles.refused, troubles.unreachable) == (None, ENDED)
    now = 14.0
    troubles(ENDED)
    troubles.forget()
    now = 28.0
    troubles(ENDED)
    now = 42.0
    troubles(ENDED)
    assert troubles.refused is None
    now = 43.0
    troubles(ENDED)
    assert troubles.refused is ENDED


def test_a_second_login_in_the_middle_of_something_is_tried_again() -> None:
    """A client that was answered has credentials; of one that was not the broker may want none at all."""
    not_now = KafkaError(
        KafkaError._AUTHENTICATION, "handshake failed: Broker: Request not valid in current SASL state"
    )
    troubles = ClientTroubles()
    troubles(not_now)
    assert troubles.refused is not_now
    troubles.forget()
    troubles(not_now)
    assert (troubles.refused, troubles.unreachable) == (None, not_now)


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (AWAY, RetryableError, "no-token"),
        (ENDED, ConfigError, "authentication-failed"),
        (NO_SUCH_CLIENT, ConfigError, "authentication-failed"),
        (ALERT, ConfigError, "tls-failed"),
        (KafkaError(KafkaError._TRANSPORT, "Connection reset"), RetryableError, "broker-away"),
    ],
)
def test_a_report_is_for_a_person_or_for_a_later_try(error: KafkaError, kind: type, code: str) -> None:
    """By what it says, where librdkafka has one code for both."""
    told = translate(error, "looking")
    assert (type(told), told.code) == (kind, code)
