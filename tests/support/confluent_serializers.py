"""Confluent's own client of a registry and its serializers, as the tests that register schemas need them."""

from __future__ import annotations

from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy

# The serializers' own default asks the registry for associations first, which Apicurio answers late or never.
BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}


def registering(url: str, credentials: str | None = None) -> SchemaRegistryClient:
    """Return Confluent's client, which by itself waits for an answer without end."""
    who = {} if credentials is None else {"basic.auth.user.info": credentials}
    return SchemaRegistryClient({"url": url, "timeout": 30, **who})
