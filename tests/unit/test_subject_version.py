"""Which version of a subject a batch is read by: asked for anew, known by its number, or the table's last."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.value_format import KeySettings, ValueSettings
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.protocol.offsets import SchemaId, SchemaKey, SchemaSpan
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import layout_named
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.writer_schema import Language, SchemaText
from spark_jobs.storage.create_only import CreateOnlyStore

FIRST, SECOND = (SchemaText(Language.AVRO, f'{{"type": "fixed", "name": "F", "size": {n}}}') for n in (1, 2))
BY_VERSION = {"format": "avro", "registry": "main", "framing": "none"}
TABLE = Progress("orders", 1, {0: 9})


class Registry:
    """Subjects' versions by their names; in ``trouble`` when it is told to be."""

    def __init__(self, **subjects: list[SchemaText]) -> None:
        self.subjects = {name.replace("_", "-"): texts for name, texts in subjects.items()}
        self.asked: list[str] = []
        self.trouble: str | None = None

    def try_out(self) -> str:
        """Answer."""
        return "it answers"

    def schema(self, schema_id: SchemaId) -> SchemaText | None:
        """Return one of two."""
        self._ask(f"schema {schema_id}")
        return {SchemaId(1): FIRST, SchemaId(2): SECOND}.get(schema_id)

    def version(self, subject: str, version: int | None) -> tuple[SchemaId, SchemaText]:
        """Return a subject's version."""
        self._ask(f"{subject} {version or 'latest'}")
        text = self.subjects[subject][(version or 0) - 1]
        return SchemaId(1 + (text == SECOND)), text

    def _ask(self, question: str) -> None:
        if self.trouble is not None:
            raise RetryableError("no schemas from the registry main", code=self.trouble, hint="")
        self.asked.append(question)


def schemas_of(
    tmp_path: Path, registry: Registry, value: dict[str, Any], key: dict[str, Any] | None = None
) -> RecordSchemas:
    """Return a pipeline's schemas as another run has them."""
    kept = SchemaStore("main", CreateOnlyStore(str(tmp_path / "state"), {}), registry)
    return RecordSchemas(
        ValueSettings(**value),
        KeySettings(**(key or {})),
        topic="orders",
        layout=layout_named("flat"),
        registry=lambda _name: kept,
        folder=tmp_path,
    )


def read_by(schemas: RecordSchemas, progress: Progress) -> list[str]:
    """Return by what a drain is read that is planned now."""
    schemas.ask_for_versions(progress)
    return [str(key) for key in schemas.read_by(progress, asks_anew=True)]


def test_the_latest_is_asked_for_whenever_a_drain_is_planned(tmp_path: Path) -> None:
    """Of values and of keys, each by a subject of its own; who knows both needs to know no more."""
    registry = Registry(orders_value=[FIRST], other=[FIRST])
    schemas = schemas_of(tmp_path, registry, BY_VERSION, {**BY_VERSION, "subject": "other"})
    assert read_by(schemas, TABLE) == ["1", "key/1"]
    registry.subjects["orders-value"].append(SECOND)
    assert read_by(schemas, TABLE) == ["2", "key/1"]
    assert registry.asked == ["orders-value latest", "other latest"] * 2
    assert schemas.digests() == {
        SchemaKey.parse("1"): FIRST.digest,
        SchemaKey.parse("2"): SECOND.digest,
        SchemaKey.parse("key/1"): FIRST.digest,
    }


def test_while_the_registry_is_away_it_stays_the_last_of_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a word of it; where the table knows none nothing is read."""
    registry = Registry(orders_value=[FIRST, SECOND])
    schemas_of(tmp_path, registry, BY_VERSION).ask_for_versions(TABLE)
    registry.trouble = "registry-away"
    with pytest.raises(RetryableError, match="registry-away"):
        read_by(schemas_of(tmp_path, registry, BY_VERSION), TABLE)
    two = replace(
        TABLE,
        schema_spans=tuple(SchemaSpan(SchemaKey.parse(each), {0: 0}) for each in ("1", "2", "key/1")),
        schemas={SchemaKey.parse("2"): SECOND.digest},
    )
    with caplog.at_level(logging.WARNING, "spark_jobs"):
        assert read_by(schemas_of(tmp_path, registry, BY_VERSION), two) == ["2"]
    assert "orders-value is read by schema 2, the last one of the table" in caplog.text
    registry.trouble = "log-store-away"
    with pytest.raises(RetryableError, match="log-store-away"):
        read_by(schemas_of(tmp_path, registry, BY_VERSION), two)


def test_a_number_is_asked_for_once_and_nothing_else_stands_for_it(tmp_path: Path) -> None:
    """Another run knows it from the store; another number while the registry is away is not guessed."""
    registry = Registry(orders_value=[FIRST, SECOND])
    for _ in range(2):
        assert read_by(schemas_of(tmp_path, registry, {**BY_VERSION, "version": 1}), TABLE) == ["1"]
    assert registry.asked == ["orders-value 1"]
    registry.trouble = "registry-away"
    one = replace(TABLE, schema_spans=(SchemaSpan(SchemaKey.parse("1"), {0: 0}),))
    assert read_by(schemas_of(tmp_path, registry, {**BY_VERSION, "version": 1}), one) == ["1"]
    with pytest.raises(RetryableError, match="registry-away"):
        read_by(schemas_of(tmp_path, registry, {**BY_VERSION, "version": 2}), one)


def test_a_replay_is_read_by_what_the_table_knows(tmp_path: Path) -> None:
    """Nobody is asked; by the version of now where it knows nothing, and that is the replay's then."""
    registry = Registry(orders_value=[FIRST, SECOND])
    one = replace(
        TABLE,
        schema_spans=(SchemaSpan(SchemaKey.parse("1"), {0: 0}),),
        schemas={SchemaKey.parse("1"): FIRST.digest},
    )
    schemas = schemas_of(tmp_path, registry, BY_VERSION)
    assert schemas.read_by(one, asks_anew=False) == ()
    known = schemas.known(one)
    assert (known.spans, [str(key) for key in known.by_key]) == (one.schema_spans, ["1"])
    assert registry.asked == ["schema 1"]
    assert schemas.read_by(TABLE, asks_anew=False) == (SchemaKey.parse("2"),)
    assert schemas.known(TABLE).spans == (SchemaSpan(SchemaKey.parse("2"), {}),)


def test_a_version_with_other_content_than_the_table_was_read_by_is_refused(tmp_path: Path) -> None:
    """Also where the store was lost: the table's digest is enough."""
    registry = Registry(orders_value=[FIRST])
    other = replace(TABLE, schemas={SchemaKey.parse("1"): SECOND.digest})
    with pytest.raises(ConfigError, match="registry-changed"):
        read_by(schemas_of(tmp_path, registry, BY_VERSION), other)


def test_a_version_of_protobuf_is_read_by_one_of_its_messages(tmp_path: Path) -> None:
    """By the one that is configured; which of several is not guessed."""
    file = 'syntax = "proto3"; message Order { int64 id = 1; } message Refund { string why = 1; }'
    registry = Registry(orders_value=[SchemaText(Language.PROTOBUF, file)])
    value = {**BY_VERSION, "format": "protobuf"}
    (schema,) = schemas_of(tmp_path, registry, {**value, "message": "Refund"}).known(TABLE).every
    assert [field.name for field in schema.columns.struct.fields] == ["why"]
    with pytest.raises(ConfigError, match="no-such-message"):
        schemas_of(tmp_path, registry, value).known(TABLE)


def test_values_that_name_their_schemas_again_need_no_version(tmp_path: Path) -> None:
    """What a version had been is nothing that a value of Protobuf names."""
    registry = Registry(orders_value=[FIRST])
    framed = schemas_of(tmp_path, registry, {"format": "protobuf", "registry": "main"})
    was = replace(
        TABLE,
        schema_spans=(SchemaSpan(SchemaKey.parse("1"), {0: 0}),),
        schemas={SchemaKey.parse("1"): FIRST.digest},
    )
    framed.ask_for_versions(was)
    known = framed.known(was)
    assert (known.spans, dict(known.by_key), known.is_framed) == ((), {}, True)
    assert framed.read_by(was, asks_anew=True) == ()
    assert not registry.asked
