"""A real registry, filled by Confluent's own serializers: what they registered is read back, and kept."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from prove.lab.harm_proxy import Harm, HarmProxy
from prove.lab.http_proxy import Client, HttpProxy, Request, Response
from prove.lab.kafka_server import unique_name
from prove.lab.registry_stand_in import RegistryStandIn, basic
from spark_jobs.config.registry_settings import RegistryAuth, RegistrySettings
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry.client import RegistryClient
from spark_jobs.registry.http_get import access_of
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.writer_schema import Language
from spark_jobs.storage.create_only import CreateOnlyStore
from tests.support.certificates import make_certificates
from tests.support.confluent_serializers import BY_TOPIC, registering

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from google.protobuf.message import Message

    from prove.lab.s3 import S3

ITEM = {"type": "record", "name": "Item", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": "shop.Item"}},
    ],
}
CUSTOMER = {"title": "Customer", "type": "object", "properties": {"name": {"type": "string"}}}


@pytest.fixture
def producer(registry: str) -> SchemaRegistryClient:
    """Confluent's own client."""
    return registering(registry)


def client(url: str, timeout_seconds: float = 10.0, **settings: Any) -> RegistryClient:
    """Return ours."""
    access = access_of("main", RegistrySettings(url=url, **settings))
    return RegistryClient(replace(access, timeout_seconds=timeout_seconds))


def id_of(value: bytes) -> SchemaId:
    """Return the id that a value begins with."""
    assert value[0] == 0
    return SchemaId(int.from_bytes(value[1:5]))


def proto_file(name: str, package: str, field: str, kind: str = "", imports: str = "") -> bytes:
    """Return a file with one message of one field: a number, or a message of the imported file."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    message = file.message_type.add(name="Thing")
    of = descriptor_pb2.FieldDescriptorProto
    added = message.field.add(name=field, number=1, label=of.LABEL_OPTIONAL, type=of.TYPE_INT64)
    if kind:
        file.dependency.append(imports)
        added.type, added.type_name = of.TYPE_MESSAGE, kind
    return file.SerializeToString()


def message_of(*files: bytes) -> type[Message]:
    """Return the message of the last file."""
    pool = descriptor_pool.DescriptorPool()
    last = [pool.AddSerializedFile(file) for file in files][-1]
    return message_factory.GetMessageClass(last.message_types_by_name["Thing"])


def test_avro_and_json_schemas_are_read_as_serializers_registered_them(
    registry: str, producer: SchemaRegistryClient
) -> None:
    """By the id of a value and by the subject's latest version, references at any depth with them."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer  # a second of imports

    topic, item = unique_name("orders"), unique_name("item")
    producer.register_schema(item, Schema(json.dumps(ITEM), "AVRO"))
    order = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Item", item, 1)])
    value = AvroSerializer(producer, order, conf=BY_TOPIC)({"id": 1, "items": [{"sku": "a"}]}, _of(topic))
    key = JSONSerializer(json.dumps(CUSTOMER), producer, conf=BY_TOPIC)(
        {"name": "a"}, _of(topic, MessageField.KEY)
    )
    assert value is not None
    assert key is not None

    avro, customer = (client(registry).schema(id_of(each)) for each in (value, key))

    assert avro is not None
    assert customer is not None
    assert (avro.language, json.loads(avro.text)) == (Language.AVRO, ORDER)
    assert [(name, json.loads(text)) for name, text in avro.references] == [("shop.Item", ITEM)]
    assert (customer.language, json.loads(customer.text)) == (Language.JSON_SCHEMA, CUSTOMER)
    assert client(registry).version(f"{topic}-value", None) == (id_of(value), avro)


def test_protobuf_is_read_as_python_registers_it_and_as_text(
    registry: str, producer: SchemaRegistryClient
) -> None:
    """Python registers descriptors in base64, Java text; both come with what they import."""
    name = unique_name("files").replace("-", "_")
    inner = proto_file(f"{name}/inner.proto", f"{name}.inner", "number")
    outer = proto_file(f"{name}/outer.proto", name, "inner", f".{name}.inner.Thing", f"{name}/inner.proto")
    kind = message_of(inner, outer)
    value = ProtobufSerializer(kind, producer, conf=BY_TOPIC)(kind(), _of(name))
    assert value is not None

    schema = client(registry).schema(id_of(value))

    assert schema is not None
    assert schema.language is Language.PROTOBUF
    assert base64.b64decode(schema.text) == outer
    assert [(each, base64.b64decode(text)) for each, text in schema.references] == [
        (f"{name}/inner.proto", inner)
    ]
    text = 'syntax = "proto3";\nmessage A {\n  int64 b = 1;\n}\n'
    written = producer.register_schema(f"{name}-text", Schema(text, "PROTOBUF"))
    plain = client(registry).schema(SchemaId(written))
    assert plain is not None
    assert (plain.language, plain.text) == (Language.PROTOBUF, text)


def test_a_registry_without_guids_or_a_schema_says_so(registry: str) -> None:
    """An id that nobody registered is none; of GUIDs Apicurio knows nothing, which is no unknown schema."""
    assert client(registry).schema(SchemaId(2**31 - 1)) is None
    with pytest.raises(ConfigError, match="GUIDs") as raised:
        client(registry).schema(SchemaId("0a0b0c0d-0000-4000-8000-00000000000f"))
    assert raised.value.code == "registry-no-api"
    with pytest.raises(ConfigError) as raised:
        client(registry.removesuffix("/apis/ccompat/v7")).schema(SchemaId(1))
    assert raised.value.code == "registry-no-api"
    assert "without credentials" in client(registry).try_out()


def test_ids_in_headers_are_found_by_guid() -> None:
    """Apicurio has none: Confluent's serializer registers with a stand-in of the documented answers."""
    with RegistryStandIn() as stand_in:
        producer = registering(stand_in.url)
        settings = {**BY_TOPIC, "schema.id.serializer": header_schema_id_serializer}
        context = _of("orders")
        AvroSerializer(producer, json.dumps(ITEM), conf=settings)({"sku": "a"}, context)
        ((name, header),) = context.headers
        found = client(stand_in.url).schema(SchemaId(str(uuid.UUID(bytes=bytes(header[1:])))))
    assert (name, header[0]) == ("__value_schema_id", 1)
    assert found is not None
    assert json.loads(found.text) == ITEM


def test_schemas_are_kept_wherever_the_state_is(
    registry: str, producer: SchemaRegistryClient, s3: S3
) -> None:
    """Also in an object store: what is read back is what was kept."""
    schema_id = SchemaId(producer.register_schema(unique_name("s"), Schema(json.dumps(ITEM), "AVRO")))
    store = CreateOnlyStore(f"s3://{s3.bucket}/state", s3.pyiceberg_properties)
    first = SchemaStore("main", store, client(registry)).schemas_of([schema_id])
    again = SchemaStore("main", store, client("http://127.0.0.1:1"))
    assert again.schemas_of([schema_id]) == again.schemas_of([schema_id], again.kept()) == first


class Gate(HttpProxy):
    """Passes on what says who asks in these words, as a proxy before a registry does."""

    def __init__(self, upstream: str, wanted: str | None, tls: ssl.SSLContext) -> None:
        super().__init__(upstream, tls=tls)
        self._wanted = wanted

    def serve(self, request: Request, client: Client) -> None:
        is_known = request.headers.get("Authorization") == self._wanted
        client.answer(self.pass_on(request) if is_known else Response(401, (), b""))


@pytest.mark.parametrize(
    "way",
    [
        (RegistryAuth(), None),
        (RegistryAuth(basic="me:hunter2-Tr0ub4dor"), basic("me", "hunter2-Tr0ub4dor")),
        (RegistryAuth(bearer="${SLUICE_TEST_TOKEN}"), "Bearer hunter2-Tr0ub4dor"),
    ],
    ids=["certificate", "basic", "bearer"],
)
def test_a_registry_behind_a_gate_is_asked_by_who_may(
    way: tuple[RegistryAuth, str | None],
    registry: str,
    producer: SchemaRegistryClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By TLS with the authority's certificate and our own, by a password, a token: the same as without."""
    auth, wanted = way
    monkeypatch.setenv("SLUICE_TEST_TOKEN", "hunter2-Tr0ub4dor")
    schema_id = SchemaId(producer.register_schema(unique_name("s"), Schema('"long"', "AVRO")))
    certificates = make_certificates(tmp_path / "certificates")
    files = {"ca": str(certificates.ca), "cert": str(certificates.client)}
    with Gate(registry, wanted, certificates.server_context(asks_clients=True)) as gate:
        assert client(gate.url, auth=auth, **files).schema(schema_id) == client(registry).schema(schema_id)
        with pytest.raises(ConfigError) as refused:
            client(gate.url, auth=RegistryAuth(basic="me:other"), **files).schema(schema_id)
        assert refused.value.code == "registry-refused"


@pytest.mark.parametrize("harm", Harm)
def test_what_is_kept_needs_no_registry_and_what_is_not_waits_for_it(
    harm: Harm, registry: str, producer: SchemaRegistryClient, tmp_path: Path
) -> None:
    """Slow or shaky, it is asked again; away, a new id is retried later, and refused, a person is told."""
    known, new = (
        SchemaId(producer.register_schema(unique_name("s"), Schema(json.dumps(text), "AVRO")))
        for text in ("long", ITEM | {"name": f"T{unique_name('').replace('-', '_')}"})
    )
    store = CreateOnlyStore(str(tmp_path / "state"), {})
    with HarmProxy(registry) as proxy:
        first = SchemaStore("main", store, client(proxy.url)).schemas_of([known])
        proxy.suffer(harm)
        again = SchemaStore("main", store, client(proxy.url, timeout_seconds=0.6))
        assert again.schemas_of([known]) == first
        assert proxy.harmed == 0
        if harm is Harm.SLOW or harm.is_of_some:
            assert set(again.schemas_of([known, new])) == {known, new}
            return
        kind, code = (
            (ConfigError, "registry-refused") if harm is Harm.DENIED else (RetryableError, "registry-away")
        )
        with pytest.raises(SluiceError) as raised:
            again.schemas_of([known, new])
        assert (type(raised.value), raised.value.code) == (kind, code)
        assert set(again.kept()) == {known}


def _of(topic: str, field: str = MessageField.VALUE) -> SerializationContext:
    return SerializationContext(topic, field, [])
