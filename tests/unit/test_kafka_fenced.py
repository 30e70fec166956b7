"""A broker that is fenced for a moment, because it stood still, ends no process that looks at topics."""

from __future__ import annotations

import subprocess
import sys
from itertools import takewhile

import pytest

from tests.support.fenced_broker import CLUSTER, TOPIC, fenced_broker

# In another process, since librdkafka's assertions end it.
_LOOKING = """
import sys
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import RetryableError

admin = KafkaAdmin({"bootstrap.servers": sys.argv[1]}, timeout_seconds=2.0)
for _ in sys.stdin:
    try:
        print(admin.%s, flush=True)
    except RetryableError as error:
        print(error.code, flush=True)
"""

# One time in ten or so, librdkafka then has no broker left that it could ask (its issue 5301).
_TIMES, _LOOKS = 12, 5


@pytest.mark.parametrize(
    ("look", "told"),
    [(f"identity({TOPIC!r}).cluster_id", CLUSTER), ("topics()", f"frozenset({{{TOPIC!r}}})")],
)
def test_a_fenced_broker_is_asked_again(look: str, told: str) -> None:
    """It names no broker, not even itself: at worst it is away until it does, and no longer."""
    command = [sys.executable, "-c", _LOOKING % look]
    with (
        fenced_broker() as broker,
        subprocess.Popen(
            [*command, broker.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as looking,
    ):
        stdin, stdout = looking.stdin, looking.stdout
        assert stdin is not None
        assert stdout is not None

        def seen(*, is_fenced: bool) -> str:
            broker.is_fenced = is_fenced
            stdin.write("\n")
            stdin.flush()
            return stdout.readline().strip()

        assert seen(is_fenced=False) == told
        for _ in range(_TIMES):
            assert seen(is_fenced=True) in {told, "broker-away"}
            looks = (seen(is_fenced=False) for _ in range(_LOOKS))
            before = list(takewhile(told.__ne__, looks))
            assert set(before) <= {"broker-away"}
            assert len(before) < _LOOKS
        stdin.close()
