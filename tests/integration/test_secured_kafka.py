"""A broker with TLS, logins of every kind and rights: two rights are enough, and every fault is named."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not list
    AclOperation,
    AclPermissionType,
    ResourceType,
)

from cli.commands.check import command as check
from gateway.gateway import Gateway
from gateway.topics import STATES_SUFFIX
from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import configure, orders
from prove.lab.rights import rule
from prove.lab.secured_kafka import MECHANISMS, PASSWORD, SecuredKafka, start_secured_kafka
from prove.lab.token_endpoint import giving_tokens
from servers.process import ServerFolder
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.secrets import resolve
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from tests.support.gateway_server import eventually
from tests.support.lake import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RECORDS = 40


@pytest.fixture(scope="module")
def secured(servers_folder: Path) -> Iterator[SecuredKafka]:
    """The broker of this file, whose users may do nothing but what a test grants them."""
    with giving_tokens() as tokens:
        kafka = start_secured_kafka(ServerFolder(servers_folder, "secured-kafka"), tokens)
        yield kafka
        kafka.server.process.stop()


@pytest.fixture
def topic(secured: SecuredKafka) -> str:
    """A topic with records, on which nobody has a right."""
    name = secured.open.new_topic(partitions=2)
    secured.open.produce(name, orders(0, RECORDS))
    return name


@pytest.fixture
def new_lab(secured: SecuredKafka, topic: str, spark_remote: str, tmp_path: Path) -> Callable[..., Lab]:
    """Makes the pipeline over the topic that asks as a user; on Spark's workers, or in this process."""

    def make(mechanism: str, *, is_here: bool = False, **settings: Any) -> Lab:
        return secured.lab(tmp_path, topic, mechanism, None if is_here else spark_remote, **settings)

    return make


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Lab], str]:
    """What `check` prints of a lab."""

    def run(lab: Lab) -> str:
        monkeypatch.setenv("SLUICE_CONFIG", str(lab.path))
        assert check.callback is not None
        code = check.callback("orders", deep=False)
        printed = capsys.readouterr().out
        assert bool(code) == ("FAIL" in printed), printed
        assert PASSWORD not in printed
        return printed

    return run


def refusal(lab: Lab) -> SluiceError:
    """What a drain ends with, which leaves no table behind."""
    with pytest.raises(SluiceError) as raised:
        lab.drain()
    assert PASSWORD not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_two_rights_on_the_topic_are_enough_for_everything(
    secured: SecuredKafka,
    topic: str,
    new_lab: Callable[..., Lab],
    checked: Callable[[Lab], str],
    mechanism: str,
) -> None:
    """To check, drain on Spark's workers and audit: none on a group, the cluster or settings."""
    secured.grant(topic, mechanism, AclOperation.READ, AclOperation.DESCRIBE)
    lab = new_lab(mechanism)
    printed = checked(lab)
    assert "all passed" in printed
    assert "the broker's certificate expires in 364 days" in printed
    assert ("the client's certificate expires in 364 days" in printed) == (mechanism == "mtls")
    assert " match" in printed
    assert lab.drain().stopped == "caught-up"
    assert lab.rows().num_rows == RECORDS
    found = lab.audit()
    assert found.is_clean, found


@pytest.mark.parametrize("rights", [([], "Describe"), ([AclOperation.DESCRIBE], "Read")])
def test_a_right_that_lacks_is_named_by_its_operation(
    secured: SecuredKafka,
    topic: str,
    new_lab: Callable[..., Lab],
    checked: Callable[[Lab], str],
    rights: tuple[list[AclOperation], str],
) -> None:
    """By `check` and by a run, which makes nothing and tries nothing again; before there is a record too."""
    granted, lacks = rights
    for name in (topic, secured.open.new_topic()):
        secured.grant(name, "plain", *granted)
    lab = new_lab("plain", is_here=True)
    error = refusal(lab)
    assert (type(error), error.code) == (ConfigError, "not-authorised")
    told = f"Kafka denied the right {lacks} while"
    assert told in error.message
    configure(lab, "catalog", {"uri": "sqlite:////dev/null/catalog.db"})  # no Spark is started for the rest
    assert told in checked(lab)
    configure(lab, "pipelines/orders", {"topic": name})
    assert told in checked(lab)


def test_a_topic_that_may_not_even_be_seen_is_not_told_from_none(
    secured: SecuredKafka, tmp_path: Path
) -> None:
    """Kafka's own rule; a topic that is not there says the same."""
    assert refusal(secured.lab(tmp_path, unique_name("none"), "plain")).code == "not-authorised"


@pytest.mark.parametrize("how", ["right", "login"])
def test_a_user_revoked_in_the_middle_loses_nothing(
    secured: SecuredKafka, topic: str, new_lab: Callable[..., Lab], how: str
) -> None:
    """What was committed stays, the next batch ends with one clear error, and granted again it goes on."""
    secured.grant(topic, "scram", AclOperation.READ)
    lab = new_lab("scram", max_batch_records=10)

    def revoke() -> None:
        if how == "right":
            secured.revoke(topic, "scram", AclOperation.READ)
        else:
            secured.lock_out("scram")

    try:
        with pytest.raises(ConfigError) as raised:
            lab.drain(fail_points=Once("drain.after-commit", revoke))
        assert raised.value.code == ("not-authorised" if how == "right" else "authentication-failed")
        assert lab.rows().num_rows == 10
    finally:
        secured.let_in("scram")
    secured.grant(topic, "scram", AclOperation.READ)
    lab.drain()
    assert lab.rows().num_rows == RECORDS
    assert lab.audit().is_clean


@pytest.mark.parametrize("mechanism", ["plain", "scram", "oidc"])
def test_a_wrong_password_is_named(new_lab: Callable[..., Lab], mechanism: str) -> None:
    """Kafka's, or what the identity provider refuses; nobody tries it again."""
    lab = new_lab(mechanism, is_here=True)
    secret = "sasl.oauthbearer.client.secret" if mechanism == "oidc" else "sasl.password"
    configure(lab, "kafka", {secret: "another"})
    error = refusal(lab)
    assert (type(error), error.code) == (ConfigError, "authentication-failed")
    assert "another" not in str(error)


def test_a_gateway_follows_a_password_that_was_rotated(
    secured: SecuredKafka, topic: str, new_lab: Callable[..., Lab], tmp_path: Path
) -> None:
    """Once the broker ends its connections it takes its slots again, with what the file has by now."""
    for name in (topic, f"{topic}{STATES_SUFFIX}"):
        secured.grant(name, "scram", AclOperation.CREATE, AclOperation.READ, AclOperation.WRITE)
    slot, kind = f"sluice-gateway-{topic}-0", ResourceType.TRANSACTIONAL_ID
    rule(secured.open, slot, AclOperation.WRITE, AclPermissionType.ALLOW, kind, user="scram")
    lab, file = new_lab("scram", is_here=True), tmp_path / "password"
    file.write_text(PASSWORD)
    configure(lab, "kafka", {"sasl.password": f"${{file:{file}}}"})
    settings = GatewaySettings.model_validate({"streams": {"orders": {"topic": topic}}, "sources": "0-0/8"})
    with (
        lab.connections() as connections,
        closing(Gateway(settings, (), connections, home=tmp_path, url="http://here")) as gateway,
    ):
        gateway.start()
        eventually(lambda: gateway.is_ready, 60)
        writer = gateway.streams["orders"].lanes[0]._writer
        try:
            secured.let_in("scram", "another-password")
            file.write_text("another-password")
            connections.admin._connected = writer._producer = None  # as after an end of both
            eventually(lambda: writer._producer is not None, 30)
        finally:
            secured.let_in("scram")


def test_a_clients_certificate_that_ended_is_named_and_renewed_by_its_file(
    secured: SecuredKafka,
    topic: str,
    new_lab: Callable[..., Lab],
    checked: Callable[[Lab], str],
    tmp_path: Path,
) -> None:
    """A run reads the file again; nothing else is to be changed."""
    secured.grant(topic, "mtls", AclOperation.READ)
    lab = new_lab("mtls", is_here=True)
    mine = tmp_path / "mine.pem"
    mine.write_bytes(secured.authority.ca.with_name("mtls-ended.pem").read_bytes())
    configure(lab, "kafka", dict.fromkeys(("ssl.certificate.pem", "ssl.key.pem"), f"${{file:{mine}}}"))
    error = refusal(lab)
    assert (type(error), error.code) == (ConfigError, "certificate-ended")
    configure(lab, "catalog", {"uri": "sqlite:////dev/null/catalog.db"})
    assert "the client certificate expired on" in checked(lab)
    mine.write_bytes(secured.authority.issue("mtls").read_bytes())
    assert "the client's certificate expires in 364 days" in checked(lab)
    assert KafkaAdmin(resolve(lab.config.kafka)).source_state(topic).end.keys() == {0, 1}


def test_a_kept_client_goes_on_when_the_brokers_certificate_is_renewed(
    secured: SecuredKafka, topic: str, new_lab: Callable[..., Lab], checked: Callable[[Lab], str]
) -> None:
    """The sensor keeps one: what it met before is no answer to what it asks now."""
    secured.grant(topic, "plain", AclOperation.READ)
    lab = new_lab("plain", is_here=True)
    configure(lab, "kafka", {"bootstrap.servers": f"127.0.0.1:{secured.ports['EXPIRED']}"})
    kept = KafkaAdmin(resolve(lab.config.kafka))
    for _ in range(2):
        with pytest.raises(ConfigError) as raised:
            kept.source_state(topic)
        assert raised.value.code == "certificate-ended"
    configure(lab, "catalog", {"uri": "sqlite:////dev/null/catalog.db"})
    assert "the broker certificate expired on" in checked(lab)
    secured.renew()
    assert kept.source_state(topic).end.keys() == {0, 1}
    kept.close()


def test_a_provider_that_is_away_is_waited_for(
    secured: SecuredKafka, topic: str, new_lab: Callable[..., Lab]
) -> None:
    """Nobody has to mend anything: the error is one to try again, and names who gave no token."""
    secured.grant(topic, "oidc", AclOperation.READ)
    lab = new_lab("oidc", is_here=True)
    secured.tokens.is_away = True
    try:
        error = refusal(lab)
        assert (type(error), error.code) == (RetryableError, "no-token")
    finally:
        secured.tokens.is_away = False
    assert lab.drain().stopped == "caught-up"
    assert lab.rows().num_rows == RECORDS


def test_tokens_of_a_callback_are_renewed_in_every_process_that_has_a_client(
    secured: SecuredKafka, topic: str, new_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon MSK's: a library makes them; here those of the provider stand in for the signed ones."""
    secured.grant(topic, "oidc", AclOperation.READ)
    made: list[float] = []

    def stand_in(region: str) -> tuple[str, int]:
        assert region == "eu-central-1"
        token, ends = secured.tokens.token("oidc")
        made.append(ends)
        return token, int(ends * 1000)

    monkeypatch.setattr(MSKAuthTokenProvider, "generate_auth_token", stand_in)
    monkeypatch.setattr(secured.tokens, "lasts_seconds", 5)
    lab = new_lab("oidc", is_here=True)
    login = ("sasl.", "security.")
    rest = {name: each for name, each in secured.properties("oidc").items() if not name.startswith(login)}
    configure(lab, "", {"kafka": rest, "kafka_auth": {"aws_msk_iam": {"region": "eu-central-1"}}})
    kept = KafkaAdmin(resolve_kafka_properties(lab.config))
    assert kept.source_state(topic).end.keys() == {0, 1}
    while time.time() <= made[0]:  # the connection ends with the token that it was opened by
        time.sleep(0.1)
    assert kept.source_state(topic).end.keys() == {0, 1}
    assert len(made) > 1
    kept.close()
    assert lab.drain().stopped == "caught-up"
    assert lab.rows().num_rows == RECORDS
    assert lab.audit().is_clean
