"""What every kind of registry answers alike, each filled by its own API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.harm_proxy import Harm, HarmProxy
from prove.lab.kafka_server import unique_name
from spark_jobs.config.registry_settings import RegistryKind
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.writer_schema import Language, SchemaText
from spark_jobs.storage.create_only import CreateOnlyStore
from tests.support.registry_kinds import UNKNOWN, client, kinds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.registry_kinds import Filled

REFERRING = [RegistryKind.CONFLUENT, RegistryKind.APICURIO]
CUSTOMER = json.dumps({"title": "Customer", "type": "object", "properties": {"name": {"type": "string"}}})


@pytest.fixture(params=RegistryKind)
def filled(request: pytest.FixtureRequest) -> Filled:
    """A registry of each kind."""
    if request.param is RegistryKind.GLUE:
        return kinds("", request.getfixturevalue("s3_endpoint"))[request.param]
    return kinds(request.getfixturevalue("registry"))[request.param]


def record(name: str, kind: str = "long") -> str:
    """Return an Avro schema that nobody registered before."""
    return json.dumps(
        {"type": "record", "name": name, "namespace": "shop", "fields": [{"name": "a", "type": kind}]}
    )


def own_name(text: str = "a") -> str:
    """Return a name of the test's own that all registries and Avro take."""
    return unique_name(text).replace("-", "_")


@pytest.mark.parametrize("language", [Language.AVRO, Language.JSON_SCHEMA])
def test_a_schema_is_found_by_each_id_and_as_a_version(filled: Filled, language: Language) -> None:
    """By its number and as the latest of its subject, in the language that it was registered in."""
    name = own_name()
    text = record(name) if language is Language.AVRO else CUSTOMER.replace("Customer", name)
    later = text.replace('"a"' if language is Language.AVRO else '"name"', '"b"')
    first = filled.register(name, text, language)
    registry = client(filled)
    for schema_id in first:
        found = registry.schema(schema_id)
        assert found is not None
        assert (found.language, json.loads(found.text)) == (language, json.loads(text))
    assert registry.version(name, 1)[0] == first[0]
    if language is Language.AVRO:
        return
    second = filled.register(name, later, language)
    assert registry.version(name, None) == registry.version(name, 2)
    assert registry.version(name, None)[0] == second[0] != first[0]


def test_what_is_not_there_is_none_and_no_fault_of_the_address(filled: Filled) -> None:
    """An unknown id costs its records alone; a version that is not there stops the drain."""
    assert client(filled).schema(UNKNOWN[filled.kind]) is None
    with pytest.raises(ConfigError) as raised:
        client(filled).version(own_name(), None)
    assert raised.value.code == "registry-no-version"
    assert "answers requests" in client(filled).try_out()


def test_an_address_of_another_api_is_told(registry: str) -> None:
    """Each API at the other's address answers 404, which is no missing schema."""
    own, other = (kinds(registry)[kind] for kind in REFERRING)
    for filled, url in ((own, other.url), (other, own.url)):
        with pytest.raises(ConfigError) as raised:
            client(filled, url).schema(UNKNOWN[filled.kind])
        assert raised.value.code == "registry-no-api"


@pytest.mark.parametrize("filled", REFERRING, indirect=True)
def test_references_come_with_a_schema_each_after_its_own(filled: Filled) -> None:
    """At any depth, by id and by version."""
    low, middle, top = own_name("low"), own_name("middle"), own_name("top")
    filled.register(low, record(low))
    filled.register(middle, record(middle, f"shop.{low}"), references=[(f"shop.{low}", low)])
    ids = filled.register(top, record(top, f"shop.{middle}"), references=[(f"shop.{middle}", middle)])
    registry = client(filled)
    schemas = [registry.schema(each) for each in ids]
    assert registry.version(top, None) == (ids[0], schemas[0])
    for schema in schemas:
        assert schema is not None
        assert [name for name, _ in schema.references] == [f"shop.{low}", f"shop.{middle}"]
        assert json.loads(schema.references[0][1]) == json.loads(record(low))


# Confluent's: test_registry.py
@pytest.mark.parametrize("filled", [RegistryKind.APICURIO, RegistryKind.GLUE], indirect=True)
@pytest.mark.parametrize("harm", [Harm.SLOW, Harm.DENIED, Harm.ALL_CUT])
def test_what_is_kept_needs_no_registry_and_what_is_not_waits_for_it(
    filled: Filled, harm: Harm, tmp_path: Path
) -> None:
    """Away, a new id is retried by the next run; refused, a person is told; what is kept is not asked for."""
    (known, *_), (new, *_) = (filled.register(name, record(name)) for name in (own_name(), own_name()))
    store = CreateOnlyStore(str(tmp_path / "state"), {})
    with HarmProxy(filled.url) as proxy:
        first = SchemaStore("main", store, client(filled, proxy.url)).schemas_of([known])
        assert isinstance(first[known], SchemaText)
        proxy.suffer(harm)
        again = SchemaStore("main", store, client(filled, proxy.url, timeout="1s"))
        assert again.schemas_of([known]) == first
        assert proxy.harmed == 0
        if harm is Harm.SLOW:
            assert set(again.schemas_of([known, new])) == {known, new}
            return
        kind, code = (
            (ConfigError, "registry-refused") if harm is Harm.DENIED else (RetryableError, "registry-away")
        )
        with pytest.raises(SluiceError) as raised:
            again.schemas_of([known, new])
        assert (type(raised.value), raised.value.code) == (kind, code)
        assert set(again.kept()) == {known}
