"""Rights on a broker with an authorizer, as its administrator sets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not list
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker


def rule(
    kafka: KafkaBroker,
    name: str,
    operation: AclOperation,
    permission: AclPermissionType,
    kind: ResourceType = ResourceType.TOPIC,
    *,
    user: str = "ANONYMOUS",
) -> None:
    """Allow or deny the user, by default the anonymous one, an operation on a resource."""
    binding = AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, permission)
    client = AdminClient({"bootstrap.servers": kafka})
    client.create_acls([binding])[binding].result(30)
