"""A broker that requires TLS, with users of every kind, each with granted rights."""

from __future__ import annotations

import datetime as dt
import ssl
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not list
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from prove.lab.kafka_server import KafkaBroker, kafka_settings
from prove.lab.pipeline_lab import Lab, configure, make_lab
from prove.lab.rights import rule
from servers.certificates import DAY, Authority
from servers.kafka import KafkaServer, KafkaSettings, start_kafka
from servers.process import ServerFolder, free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.token_endpoint import TokenEndpoint

MECHANISMS = ("plain", "scram", "oidc", "mtls")  # and as they are called there, the users
EXPIRED_AGO = dt.timedelta(days=2)
PASSWORD = "open+Sesame/41"
_LISTENERS = {"SASL": "SASL_SSL", "MTLS": "SSL", "EXPIRED": "SASL_SSL"}
_TIMEOUT_SECONDS = 30
_NETWORK_THREADS = 3  # each listener has its own
_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class SecuredKafka:
    """``open`` is a listener with all rights for everyone; ``ports`` are the other listeners.

    The listener EXPIRED has a certificate that has ended, until ``renew``.
    """

    server: KafkaServer
    open: KafkaBroker
    ports: dict[str, int]
    authority: Authority
    tokens: TokenEndpoint
    admin: AdminClient

    def properties(self, mechanism: str) -> dict[str, str]:
        """Return a user's ``kafka:`` section: certificates and keys as text, read from files."""
        known = {"security.protocol": "SASL_SSL", "ssl.ca.pem": f"${{file:{self.authority.ca}}}"}
        at = {"bootstrap.servers": f"127.0.0.1:{self.ports['MTLS' if mechanism == 'mtls' else 'SASL']}"}
        return (
            at
            | {
                "plain": known
                | {"sasl.mechanism": "PLAIN", "sasl.username": "plain", "sasl.password": PASSWORD},
                "scram": known
                | {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "scram", "sasl.password": PASSWORD},
                "oidc": known
                | {
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.method": "oidc",
                    "sasl.oauthbearer.client.id": "oidc",
                    "sasl.oauthbearer.client.secret": PASSWORD,
                    "sasl.oauthbearer.token.endpoint.url": self.tokens.url,
                },
                "mtls": known | {"security.protocol": "SSL"} | self.of_client("mtls"),
            }[mechanism]
        )

    def of_client(self, file: str) -> dict[str, str]:
        """Return the properties of a client certificate and key in one file."""
        both = f"${{file:{self.authority.ca.with_name(f'{file}.pem')}}}"
        return {"ssl.certificate.pem": both, "ssl.key.pem": both}

    def lab(
        self, folder: Path, topic: str, mechanism: str, remote: str | None = None, **settings: Any
    ) -> Lab:
        """Return a pipeline over the topic with such a user."""
        lab = make_lab(folder, bootstrap="", topic=topic, spark_remote=remote, **settings)
        configure(lab, "kafka", self.properties(mechanism))
        return lab

    def reader(self, topic: str) -> dict[str, str]:
        """Return the ``kafka:`` section of a user who may only read this topic."""
        self.grant(topic, "scram", AclOperation.READ)
        return self.properties("scram")

    def grant(self, topic: str, user: str, *operations: AclOperation) -> None:
        """Allow the user these operations on the topic."""
        for operation in operations:
            rule(self.open, topic, operation, AclPermissionType.ALLOW, user=user)

    def revoke(self, topic: str, user: str, operation: AclOperation) -> None:
        """Revoke the rights."""
        which = AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        assert self.admin.delete_acls([which])[which].result(_TIMEOUT_SECONDS)

    def let_in(self, user: str, password: str = PASSWORD) -> None:
        """Set a SCRAM user's password."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter(UserScramCredentialUpsertion(user, how, password.encode()))

    def lock_out(self, user: str) -> None:
        """Delete a SCRAM user."""
        self._alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))

    def renew(self) -> None:
        """Replace the certificate of the listener EXPIRED, and wait until the broker uses it.

        Each network thread of a broker takes it over on its own, and connections go to them in turn.
        """
        address = ("127.0.0.1", self.ports["EXPIRED"])
        before = ssl.get_server_certificate(address)
        path = str(self.authority.issue("localhost", file="renewed"))
        entry = ConfigEntry(
            "listener.name.expired.ssl.keystore.location",
            path,
            incremental_operation=AlterConfigOpType.SET,
        )
        broker = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
        self.admin.incremental_alter_configs([broker])[broker].result(_TIMEOUT_SECONDS)
        while any(ssl.get_server_certificate(address) == before for _ in range(4 * _NETWORK_THREADS)):
            time.sleep(0.1)

    def _alter(self, change: Any) -> None:
        self.admin.alter_user_scram_credentials([change])[change.user].result(_TIMEOUT_SECONDS)


def start_secured_kafka(folder: ServerFolder, tokens: TokenEndpoint) -> SecuredKafka:
    """Start a broker whose users have no rights yet."""
    authority = Authority(folder.home / "certificates")
    for name in ("localhost", "mtls"):
        authority.issue(name)
    ended = dt.datetime.now(dt.UTC) - 365 * DAY - EXPIRED_AGO
    authority.issue("localhost", starts=ended, file="ended")
    authority.issue("mtls", starts=ended, file="mtls-ended")
    tokens.clients["oidc"] = PASSWORD
    settings = kafka_settings(folder)
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    server = start_kafka(replace(settings, properties=_properties(settings, ports, authority)))
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    secured = SecuredKafka(server, KafkaBroker(server.bootstrap_servers), ports, authority, tokens, admin)
    secured.let_in("scram")
    return secured


def _properties(settings: KafkaSettings, ports: dict[str, int], authority: Authority) -> dict[str, str]:
    asked = {"PLAINTEXT": f"127.0.0.1:{settings.port}"} | {n: f"127.0.0.1:{p}" for n, p in ports.items()}
    listeners = [f"{name}://{where}" for name, where in asked.items()]
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", **_LISTENERS}
    plain = f'{_LOGIN}.plain.PlainLoginModule required user_plain="{PASSWORD}";'
    certificates = authority.ca.parent
    return {
        "num.network.threads": str(_NETWORK_THREADS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{settings.controller_port}"]),
        "advertised.listeners": ",".join(listeners),
        "listener.security.protocol.map": ",".join(f"{name}:{p}" for name, p in protocols.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "localhost.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl.plain.sasl.jaas.config": plain,
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule"
        ' required unsecuredLoginStringClaim_sub="nobody";',
        # A connection lasts as long as its token, and not longer than this.
        "listener.name.sasl.oauthbearer.connections.max.reauth.ms": "3600000",
        "listener.name.expired.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.expired.plain.sasl.jaas.config": plain,
        "listener.name.expired.ssl.keystore.type": "PEM",
        "listener.name.expired.ssl.keystore.location": str(certificates / "ended.pem"),
    }
