"""Values in the frames of other registries than Confluent's, from bytes to rows."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import by_offset, configure, progress
from spark_jobs.config.registry_settings import RegistryKind
from spark_jobs.preview.rehearsal import rehearse
from spark_jobs.protocol.offsets import OffsetRange
from tests.integration.test_drain_by_schema import FIRST, SECOND, bare, order, values_of
from tests.support.new_lab import DEAD_LETTERS
from tests.support.registry_kinds import SETTINGS, kinds

if TYPE_CHECKING:
    from spark_jobs.protocol.offsets import SchemaId
    from tests.support.new_lab import NewLab
    from tests.support.registry_kinds import Filled

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ONE, TWO = {"id": 1, "total": 1.5}, {"id": 2, "total": None, "note": "gift"}
GIFT = {"name": "to", "type": ["null", "string"], "default": None}
NOTHING = {"total": None, "note": None}


def drained(new_lab: NewLab, kind: RegistryKind, url: str, framing: str, records: list[Any]) -> Any:
    """Return a pipeline that was drained."""
    lab = new_lab(records, value={"format": "avro", "registry": "main", "framing": framing})
    settings = {"kind": str(kind), "timeout": "2s", **SETTINGS.get(kind, {})}
    configure(lab, "", {"registries": {"main": {"url": url, **settings}}})
    lab.drain()
    return lab


def check(lab: Any, ids: set[str]) -> None:
    """Compare the rows, dead letters and schemas."""
    wanted = {(0, 0): {**NOTHING, **ONE}, (0, 1): {**NOTHING, **TWO}, (0, 2): {**NOTHING, **ONE}}
    assert values_of(lab) == wanted
    letters = by_offset(lab, DEAD_LETTERS)
    assert "has no schema" in letters[0, 3]["error"]
    assert "names no schema" in letters[0, 4]["error"]
    assert {str(key) for key in progress(lab).schemas} == ids
    assert lab.audit().is_clean


def rehearse_next(lab: Any, registry: Filled, subject: str) -> None:
    """Rehearse the first version of the subject that the kind's own serializers use for this topic."""
    registry.register(subject, order([*SECOND, GIFT]))
    with lab.connections() as connections:
        found = rehearse(lab.pipeline, connections, version=1, max_records=10)
    assert (found.seen.added, found.seen.balance.rows, sum(found.left_out.values())) == (("to",), 3, 2)


def test_apicurios_own_ids_before_values_and_in_headers(new_lab: NewLab, registry: str) -> None:
    """Of contents and global ones in one stream; an unknown id or another frame is a dead letter."""
    apicurio = kinds(registry)[RegistryKind.APICURIO]
    name = unique_name("orders")
    content, _ = apicurio.register(name, order(FIRST))
    _, of_version = apicurio.register(name, order(SECOND))

    def prefix(schema_id: SchemaId | int) -> bytes:
        return b"\0" + int(str(schema_id)).to_bytes(8)

    header = ("apicurio.value.globalId", int(str(of_version).removeprefix("global-")).to_bytes(8))
    encoding = ("apicurio.value.encoding", b"BINARY")
    records = [
        prefix(content) + bare(order(FIRST), ONE),
        Record(bare(order(SECOND), TWO), headers=[header, encoding]),
        prefix(content) + bare(order(FIRST), ONE),
        prefix((1 << 62) - 1) + bare(order(FIRST), ONE),
        b"\0" + int(str(content)).to_bytes(4) + b"\2",
    ]
    lab = drained(new_lab, apicurio.kind, apicurio.url, "apicurio", records)
    check(lab, {str(content), str(of_version)})
    rehearse_next(lab, apicurio, f"{lab.pipeline.topic}-value")
    configure(lab, "registries/main", {"url": "http://127.0.0.1:9"})
    rows = values_of(lab)
    lab.replay(OffsetRange(0, 0, 3))
    assert values_of(lab) == rows


def test_glues_uuids_of_plain_and_packed_values(new_lab: NewLab, s3_endpoint: str) -> None:
    """By boto3 from moto; an unknown UUID is a dead letter, and so is another frame."""
    glue = kinds("", s3_endpoint)[RegistryKind.GLUE]
    name = unique_name("orders")
    (first,), (second,) = glue.register(name, order(FIRST)), glue.register(name, order(SECOND))

    def framed(schema_id: SchemaId | str, schema: str, value: object, *, packed: bool = False) -> bytes:
        written = bare(schema, value)
        begin = b"\3\5" if packed else b"\3\0"
        return begin + UUID(str(schema_id)).bytes + (zlib.compress(written) if packed else written)

    records = [
        framed(first, order(FIRST), ONE),
        framed(second, order(SECOND), TWO, packed=True),
        framed(first, order(FIRST), ONE, packed=True),
        framed("89791762-2336-4186-9674-299b90a802e2", order(FIRST), ONE),
        b"\0\0\0\0\7\2",
    ]
    lab = drained(new_lab, glue.kind, glue.url, "glue", records)
    check(lab, {str(first), str(second)})
    rehearse_next(lab, glue, lab.pipeline.topic)
