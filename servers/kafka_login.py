"""What lets a broker of ours be asked over TLS alone, and by one user: made anew at every start."""

from __future__ import annotations

import secrets
from dataclasses import replace

from servers.certificates import Authority
from servers.kafka import KafkaSettings

_USER = "sluice"
_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def with_login(settings: KafkaSettings) -> KafkaSettings:
    """Return settings whose only listener for clients is SASL_SSL; the controller's is the broker's own."""
    authority = Authority(settings.folder.home / "tls")
    password = secrets.token_urlsafe(24)
    where = f"SASL_SSL://127.0.0.1:{settings.port}"
    properties = {
        "listeners": f"{where},CONTROLLER://127.0.0.1:{settings.controller_port}",
        "advertised.listeners": where,
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{_MODULE} required username="{_USER}"'
        f' password="{password}" user_{_USER}="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("localhost")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
    }
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": _USER,
        "sasl.password": password,
        "ssl.ca.pem": authority.ca.read_text(),
    }
    return replace(settings, properties={**properties, **settings.properties}, login=login)
