"""Which Kafka properties a person may set, and what to write instead of those that do not exist. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from spark_jobs.config.problems import Finding, closest, did_you_mean

# The properties librdkafka 2.16 takes as text, as `rd_kafka_conf_properties_show` lists them.
KAFKA_PROPERTY_NAMES = (resources.files(__package__) / "kafka_keys.txt").read_text("utf-8").split()
# Without any one of these, records are lost or doubled silently: `auto.offset.reset` by default skips what
# retention took and ends as if nothing were missing; `check.crcs` is off by default; uncommitted records may
# vanish; without the end-of-partition event a range that ends in markers is never done.
FIXED_PROPERTIES = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": "true",
    "enable.partition.eof": "true",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # A label the client library demands: partitions are assigned, no group is ever joined.
    "group.id": "sluice",
}

# Not librdkafka's: properties are text wherever they travel, and each client makes its callback of this.
AWS_MSK_IAM_REGION = "kafka_auth.aws_msk_iam.region"

_LOST_OR_DOUBLED = "Leave it out: another value would lose or double records."
_WHY_FIXED = {"group.id": "Leave it out: no consumer group is joined."}

ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanism": "sasl.mechanisms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "auto.commit.enable": "enable.auto.commit",
}

_DECODES = "Leave it out: Sluice decodes values itself; the key's type is the pipeline's key_format."
_BOUNDED = "Leave it out: reads are bounded by max_batch_records and the task's memory."
_PEM = "Convert the store to PEM files (openssl pkcs12 -in ... )"
_OIDC = "Set sasl.oauthbearer.method: oidc and its sasl.oauthbearer.* properties."
_JAVA_NAMES = {
    "key.deserializer": _DECODES,
    "value.deserializer": _DECODES,
    "key.serializer": _DECODES,
    "value.serializer": _DECODES,
    "max.poll.records": _BOUNDED,
    "fetch.max.wait.ms": "librdkafka calls it fetch.wait.max.ms.",
    "receive.buffer.bytes": "librdkafka calls it socket.receive.buffer.bytes.",
    "send.buffer.bytes": "librdkafka calls it socket.send.buffer.bytes.",
    "default.api.timeout.ms": "Leave it out, or set socket.timeout.ms.",
    "exclude.internal.topics": "Leave it out: topics are named one by one.",
    "interceptor.classes": "Leave it out: Java classes cannot be loaded here.",
    "metric.reporters": "Leave it out: Java classes cannot be loaded here.",
    "ssl.truststore.location": f"{_PEM} and set ssl.ca.location.",
    "ssl.truststore.password": f"{_PEM} and set ssl.ca.location; a PEM file has no password.",
    "ssl.truststore.type": f"{_PEM} and set ssl.ca.location.",
    "ssl.truststore.certificates": "librdkafka calls it ssl.ca.pem.",
    "ssl.keystore.type": "Leave it out: ssl.keystore.location is PKCS#12 here; PEM goes into"
    " ssl.certificate.location and ssl.key.location.",
    "ssl.keystore.key": "librdkafka calls it ssl.key.pem.",
    "ssl.keystore.certificate.chain": "librdkafka calls it ssl.certificate.pem.",
    "ssl.protocol": "Leave it out: the newest TLS version both sides know is used.",
    "ssl.enabled.protocols": "Leave it out: the newest TLS version both sides know is used.",
    "sasl.jaas.config": "Write its user and password as sasl.username and sasl.password, or for Kerberos"
    " sasl.kerberos.principal and sasl.kerberos.keytab.",
    "sasl.login.callback.handler.class": _OIDC,
    "sasl.client.callback.handler.class": _OIDC,
    "sasl.login.class": "Leave it out: Java classes cannot be loaded here.",
    "sasl.kerberos.kinit.cmd.path": "librdkafka calls it sasl.kerberos.kinit.cmd, the whole command.",
    "schema.registry.url": "It is no property of Kafka's own; Sluice reads JSON and needs no registry.",
}


def validate_kafka_properties(properties: Mapping[str, str]) -> list[Finding]:
    """Return every mistake in properties under librdkafka's names, in their order; values are not shown.

    A finding's path is the property's name. Values are librdkafka's to judge, when a client is made.
    """
    findings = [finding for name, value in properties.items() if (finding := _judge(name, value))]
    for alias, name in ALIASES.items():
        if alias in properties and name in properties and properties[alias] != properties[name]:
            told = f"contradicts {name}, which is the same property"
            findings.append(Finding((alias,), told, f"Keep {name}."))
    return findings


def _judge(name: str, value: str) -> Finding | None:
    fixed = FIXED_PROPERTIES.get(ALIASES.get(name, name))
    if fixed is not None:
        if str(value).lower() == fixed:
            return None
        return Finding((name,), f"is always {fixed}", _WHY_FIXED.get(name, _LOST_OR_DOUBLED))
    if name in _JAVA_NAMES:
        return Finding((name,), "is a property of Kafka's Java client", _JAVA_NAMES[name])
    if name in KAFKA_PROPERTY_NAMES:
        return None
    meant = closest(name.lower().replace("_", ".").replace("-", "."), KAFKA_PROPERTY_NAMES)
    hint = did_you_mean(meant, "See the list of properties in librdkafka's CONFIGURATION.md.")
    return Finding((name,), "is not a property librdkafka knows", hint)
