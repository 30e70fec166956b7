"""What names a schema: its order, its text and its JSON."""

from __future__ import annotations

import pytest

from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.texts import JsonCodec

GUID = "0a0b0c0d-0000-4000-8000-00000000000f"


def test_numbers_come_first_and_as_numbers() -> None:
    """Every run puts the same ids in the same order, so that it decides the same."""
    ids = [SchemaId(each) for each in (GUID, "global-10", "global-9", 10, 9)]

    assert [str(each) for each in sorted(ids)] == ["9", "10", "global-9", "global-10", GUID]


@pytest.mark.parametrize(
    "schema_id", [SchemaId(0), SchemaId(2**63 - 1), SchemaId("global-7"), SchemaId(GUID)]
)
def test_its_text_is_read_back(schema_id: SchemaId) -> None:
    """An id is the same after text and JSON, as a map's key too."""
    codec = JsonCodec(dict[SchemaId, tuple[SchemaId, ...]])

    assert SchemaId.parse(str(schema_id)) == schema_id
    assert codec.from_json(codec.to_json({schema_id: (schema_id,)})) == {schema_id: (schema_id,)}


@pytest.mark.parametrize(
    "text", ["", "-1", "07", "\u0667", f"{2**63}", "latest", GUID.upper(), "../7", "global-07", "global-"]
)
def test_no_other_text_is_an_id(text: str) -> None:
    """One id has one text, which is safe as a file's name."""
    with pytest.raises(ValueError, match="not a schema id"):
        SchemaId.parse(text)
