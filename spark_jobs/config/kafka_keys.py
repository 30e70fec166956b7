"""Which Kafka properties a person may set, and what to write instead of others; ``kafka_auth``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

from pydantic import Field

from spark_jobs.config.problems import Finding, closest, did_you_mean
from spark_jobs.config.values import AwsRegion, Frozen, key

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

# Those of the Java client alone, and what to write instead.
_JAVA_NAMES = dict(
    line.split(" ", 1)
    for line in (resources.files(__package__) / "java_keys.txt").read_text("utf-8").splitlines()
)


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


class AwsMskIam(Frozen):
    """Amazon's IAM for MSK; needs `extras: [msk]`."""

    region: AwsRegion = Field(description="Region of the cluster, `eu-central-1`.")


class KafkaAuth(Frozen):
    """Who asks Kafka, where no property of librdkafka's says it."""

    aws_msk_iam: AwsMskIam | None = key(
        None, "Tokens by Amazon's IAM for MSK, signed with the credentials that AWS's SDK finds."
    )
