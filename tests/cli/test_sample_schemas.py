"""The sample in Avro and Protobuf: what is promised of planes and airports, as others read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from cli.stand.sample_data import read_sample
from cli.stand.sample_schemas import samples_with_schemas
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.formats.protobuf.schema import protobuf_schema
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.schema.writer_schema import Language, SchemaText
from tests.support.confluent_serializers import registering

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stand_in() -> Iterator[RegistryStandIn]:
    """A registry that is empty."""
    with RegistryStandIn() as registry:
        yield registry


def test_counts_partitions_and_ids_are_as_announced(stand_in: RegistryStandIn) -> None:
    """Half of each is by its second schema; what is registered again keeps its id."""
    for sample, ids in zip(samples_with_schemas(stand_in.url), ((1, 2), (3, 4)), strict=True):
        records = list(read_sample(sample))
        assert len(records) == sample.records
        assert {record.partition for record in records} == set(range(sample.partitions))
        assert Counter(record.value[:5] for record in records) == {
            b"\0" + schema_id.to_bytes(4): sample.records // 2 for schema_id in ids
        }
    again = samples_with_schemas(stand_in.url)
    assert [next(read_sample(sample)).value[:5] for sample in again] == [b"\0\0\0\0\1", b"\0\0\0\0\3"]


def test_others_read_them(stand_in: RegistryStandIn) -> None:
    """Confluent's deserializer a plane, by the old schema and the new one; an airport has its new field."""
    planes, airports = (list(read_sample(sample)) for sample in samples_with_schemas(stand_in.url))
    read = AvroDeserializer(registering(stand_in.url))
    context = SerializationContext("planes", MessageField.VALUE)
    old, new = (read(planes[at].value, context) for at in (0, -1))
    assert (old["tailnum"], old["year"], old["seats"], "engine" in old) == ("N10156", 2004, 55, False)
    assert (new["tailnum"], new["engine"], new["speed"]) == ("N999DN", "Turbo-jet", None)
    newest = registering(stand_in.url).get_latest_version("airports-value").schema.schema_str
    airport = protobuf_schema(SchemaText(Language.PROTOBUF, newest), indexes=(0,))
    assert airport.read_plain(airports[-1].value[6:])["tzone"] == "America/New_York"


def test_a_registry_that_is_away_is_told() -> None:
    """What it was for is said; no traceback of a socket."""
    with pytest.raises(RetryableError, match="planes-value"):
        samples_with_schemas("http://127.0.0.1:9")
