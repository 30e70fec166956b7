"""Translation of librdkafka's errors into Sluice's, and its statistics."""

# ruff: noqa: SLF001  (librdkafka's own codes, as against the broker's, begin with an underscore)

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError

from spark_jobs.protocol.errors import SluiceError, fault

_CREDENTIALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_RIGHTS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# librdkafka has one code for a provider that is away and for one that knows no such client (RFC 6749, 5.2).
_NOT_ACQUIRED = "Failed to acquire SASL OAUTHBEARER token: "
_PROVIDER_SAYS_NO = re.compile(r"invalid_(client|grant|scope|request)|unauthorized_client|unsupported_")
_NOT_NOW = "Request not valid in current SASL state"
_ENDED = '"invalid_token"'  # RFC 7628, 3.2.2
_ASKS_AGAIN_SECONDS = 15.0  # librdkafka does after 10
_NO_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
# A topic just made, a partition just added, a leader or a coordinator just moved: gone within moments.
_SETTLING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_NO_ANSWER = frozenset(
    {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE}
)
_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_DAMAGED = frozenset(
    {
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError._NOT_IMPLEMENTED,  # a batch's version, or the codec, is none that there is
        KafkaError.INVALID_MSG,
    }
)


class ClientTroubles:
    """Errors of a client outside its answers: librdkafka's ``error_cb``, read while waiting.

    ``refused`` concerns the whole client (credentials, TLS), ``of_topic`` a topic (no such, no right).
    A broker refuses a token that has ended, too: while nobody gives another, that is no refusal. Nor is it
    when a client that was answered before logs in again (KIP-368) in the middle of something, or with a token
    that ended before its renewal, as on a busy machine: the next login has a new one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._no_token: tuple[KafkaError, float] | None = None
        self._was_answered = False
        self._ended: float | None = None
        self.refused: KafkaError | None = None
        self.of_topic: KafkaError | None = None
        self.unreachable: KafkaError | None = None
        self.are_all_down = False

    def __call__(self, error: KafkaError) -> None:
        """Store the report."""
        code = error.code()
        if is_of_group(error):
            return
        if is_no_token(error):
            self._no_token = error, self._clock() + _ASKS_AGAIN_SECONDS
        if code in _CREDENTIALS and self._no_token and self._clock() < self._no_token[1]:
            self.unreachable, self.are_all_down = self._no_token[0], True
        elif self._was_answered and (_NOT_NOW in error.str() or self._may_be_renewed(error)):
            self.unreachable = error
        elif code in _CREDENTIALS or is_of_tls(error):
            self.refused = error
        elif code in _RIGHTS or is_no_topic(error):
            self.of_topic = error
        elif code == KafkaError._ALL_BROKERS_DOWN:
            self.are_all_down = True
        else:
            self.unreachable = error

    def forget(self) -> None:
        """Forget earlier reports, since the broker answered."""
        self._was_answered, self._ended = True, None
        self.refused = self.of_topic = self.unreachable = None
        self.are_all_down = False

    def _may_be_renewed(self, error: KafkaError) -> bool:
        """Return True until a token has been refused for as long as a renewal takes."""
        if _ENDED not in error.str():
            return False
        self._ended = self._ended or self._clock()
        return self._clock() < self._ended + _ASKS_AGAIN_SECONDS


def is_of_group(error: KafkaError) -> bool:
    """True if access to the group is denied, which librdkafka requests but reads do not need."""
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def is_of_tls(error: KafkaError) -> bool:
    """True if a certificate is rejected by either side; brokers reject after the handshake."""
    return error.code() == KafkaError._SSL or "SSL alert number" in error.str()


def is_no_token(error: KafkaError) -> bool:
    """True if the identity provider gave no token, without having refused the client."""
    message = error.str()
    return message.startswith(_NOT_ACQUIRED) and not _PROVIDER_SAYS_NO.search(message)


def is_no_topic(error: KafkaError) -> bool:
    """True if the topic or partition does not exist."""
    return error.code() in _NO_TOPIC


def is_settling(error: KafkaError) -> bool:
    """True if a retry within a second is likely to succeed."""
    return error.code() in _SETTLING


def is_of_fenced(error: KafkaError) -> bool:
    """True if another client of the same transactional id has taken over."""
    return error.code() in _FENCED


def is_damage(error: KafkaError) -> bool:
    """True if a record batch has a wrong checksum or an unknown format."""
    return error.code() in _DAMAGED


def is_no_answer(error: KafkaError) -> bool:
    """True if no broker answered, as opposed to a refusal."""
    return error.code() in _NO_ANSWER


def translate(error: KafkaError, doing: str, *, right: str = "Describe", **where: object) -> SluiceError:
    """Return the error to raise; ``doing`` completes "while ...", ``right`` is the operation it asks for."""
    code, message = error.code(), error.str()
    if is_no_token(error):
        return fault("no-token", doing=doing, why=message.removeprefix(_NOT_ACQUIRED), **where)
    if code in _CREDENTIALS:
        return fault("authentication-failed", doing=doing, why=message, **where)
    if code in _RIGHTS:
        return fault("not-authorised", right=right, doing=doing, why=message, **where)
    if is_of_tls(error):
        return fault("tls-failed", doing=doing, why=message, **where)
    if code == KafkaError.MSG_SIZE_TOO_LARGE:
        return fault("message-too-large", doing=doing, why=message, **where)
    return _retryable(error, doing, **where)


def _retryable(error: KafkaError, doing: str, **where: object) -> SluiceError:
    if is_damage(error):
        return fault("records-damaged", doing=doing, why=error.str(), **where)
    if is_settling(error):
        return fault("no-leader", doing=doing, why=error.str(), **where)
    return fault("broker-away", doing=doing, why=error.str(), **where)


# A few of librdkafka's own figures about one consumer: what was fetched, how fast brokers answer, errors.


INTERVAL_MS = "200"
RTT_P99_US = "rtt_p99_us"


class ClientStatistics:
    """Statistics of a client: librdkafka's ``stats_cb``; short-lived consumers report none.

    ``latest`` has bytes and messages received, broker errors, and the slowest round trip (99 %) in µs.
    """

    def __init__(self) -> None:
        self.latest: dict[str, int] = {}

    def __call__(self, text: str) -> None:
        """Store the newest sums and the slowest round trip so far."""
        try:
            statistics = json.loads(text)
            brokers = [broker for broker in statistics["brokers"].values() if broker["nodeid"] >= 0]
            round_trips = [int(broker["rtt"]["p99"]) for broker in brokers]
            self.latest = {
                "received_bytes": int(statistics["rx_bytes"]),
                "received_messages": int(statistics["rxmsgs"]),
                "errors": sum(b["rxerrs"] + b["txerrs"] + b["req_timeouts"] for b in brokers),
                RTT_P99_US: max([*round_trips, self.latest.get(RTT_P99_US, 0)]),
            }
        except (ValueError, KeyError, TypeError):
            return  # another librdkafka's words: figures about the work never stop it


def figures_together(figures: list[dict[str, int]]) -> dict[str, Any]:
    """Return the figures of all consumers of a batch: sums, and the slowest round trip."""
    names = dict.fromkeys(name for each in figures for name in each)
    return {
        name: (max if name == RTT_P99_US else sum)(each.get(name, 0) for each in figures) for name in names
    }
