"""Tokens for Amazon MSK: signed as AWS signs, and what is said where none can be made."""

from __future__ import annotations

import base64
import datetime as dt
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from spark_jobs.config.sections import AWS_MSK_IAM_REGION, AwsMskIam, KafkaAuth
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.client_properties import admin_properties, consumer_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles
from spark_jobs.kafka.msk_tokens import msk_tokens
from spark_jobs.protocol.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Callable

REGION = "eu-central-1"
WHO = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """What AWS's SDK finds first."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", WHO.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", WHO.secret_key)


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials anywhere."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")


@pytest.mark.usefixtures("credentials")
def test_a_token_is_a_request_that_aws_itself_would_sign_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its signature is botocore's of the same request and moment, and it lasts a quarter of an hour."""
    token, ends = msk_tokens(REGION)("")
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    given = dict(parse_qsl(url.query))
    assert url.netloc == f"kafka.{REGION}.amazonaws.com"
    signed_at = dt.datetime.strptime(given["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    assert ends == signed_at.timestamp() + 900
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: signed_at.replace(tzinfo=None))
    request = AWSRequest("GET", f"https://{url.netloc}/", params={"Action": "kafka-cluster:Connect"})
    SigV4QueryAuth(WHO, "kafka-cluster", REGION, expires=900).add_auth(request)
    assert dict(parse_qsl(urlsplit(request.url).query))["X-Amz-Signature"] == given["X-Amz-Signature"]


@pytest.mark.usefixtures("credentials")
def test_properties_stay_text_and_every_client_makes_its_own_callback() -> None:
    """So they travel to any process, and nothing of ours reaches librdkafka as a property."""
    auth = KafkaAuth(aws_msk_iam=AwsMskIam(region=REGION))
    config = SluiceConfig(
        home="/h",
        state="/h/log",
        kafka={"bootstrap.servers": "b:1"},
        kafka_auth=auth,
        catalog=CatalogSettings(properties={}),
    )
    properties = resolve_kafka_properties(config)
    assert all(isinstance(value, str) for value in properties.values())
    makers: list[Callable[[], dict[str, str]]] = [
        lambda: admin_properties(properties),
        lambda: consumer_properties(properties, queue_bytes=1 << 20),
    ]
    for made in makers:
        given = new_client(dict, made(), ClientTroubles())  # type: ignore[var-annotated]
        assert AWS_MSK_IAM_REGION not in given
        assert (given["security.protocol"], given["sasl.mechanisms"]) == ("SASL_SSL", "OAUTHBEARER")
        assert given["oauth_cb"]("")[1] > time.time()


@pytest.mark.usefixtures("nothing_found")
def test_no_credentials_are_told_at_once() -> None:
    """A client is not made, and nobody waits for a token that nobody gives."""
    with pytest.raises(RetryableError, match="finds no credentials") as raised:
        msk_tokens(REGION)
    assert raised.value.code == "no-token"


def test_the_missing_library_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line of the configuration."""
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigError) as raised:
        msk_tokens(REGION)
    assert raised.value.code == "extra-missing"
    assert "extras: [msk]" in raised.value.hint


# A client that only a circle holds, and tokens that last a second, made of as many objects as AWS's SDK
# makes.
_DROPPED_CLIENT = """
import time
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from confluent_kafka.admin import AdminClient
from spark_jobs.config.sections import AWS_MSK_IAM_REGION
from spark_jobs.kafka import msk_tokens
from spark_jobs.kafka.client_properties import admin_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles

made = []

def stand_in(region):
    made.append([[] for _ in range(100_000)])
    return "token", int((time.time() + 1) * 1000)

MSKAuthTokenProvider.generate_auth_token = stand_in
properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL"}
properties |= {"sasl.mechanisms": "OAUTHBEARER", AWS_MSK_IAM_REGION: "eu-central-1"}
circle = [new_client(AdminClient, admin_properties(properties), ClientTroubles())]
circle.append(circle)
del circle
while len(made) < 3:
    time.sleep(0.01)
"""
_WHILE_IT_ASKS = """
msk_tokens._NO_COLLECTION._lock.acquire()
time.sleep(1.5)
"""


@pytest.mark.parametrize("ending", ["", _WHILE_IT_ASKS])
def test_a_process_with_a_dropped_client_ends(ending: str) -> None:
    """In librdkafka's thread, which asks for tokens, a client must not end, nor be waited for meanwhile."""
    command = [sys.executable, "-c", _DROPPED_CLIENT + ending]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_a_token_that_is_not_renewed_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a callback's reason librdkafka keeps nothing."""
    monkeypatch.setattr("spark_jobs.kafka.msk_tokens._token", lambda _region: ("t", 1.0))
    ask = msk_tokens(REGION)
    assert ask("") == ("t", 1.0)

    def refuse(_region: str) -> tuple[str, float]:
        raise RetryableError("no more", code="no-token", hint="")

    monkeypatch.setattr("spark_jobs.kafka.msk_tokens._token", refuse)
    with pytest.raises(RetryableError):
        ask("")
    assert "no more" in caplog.text
