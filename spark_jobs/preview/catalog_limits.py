"""How near a table's metadata are to what its catalog takes, by the catalog's documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

# Glue's: of an Iceberg table's metadata, and of a parameter's value, as which each property is stored.
GLUE_METADATA_BYTES = 20_000_000
GLUE_VALUE_BYTES = 512_000


def near_limits(kind: str, metadata: TableMetadata) -> Iterator[str]:
    """Yield a sentence for each limit of this kind of catalog that is half reached."""
    if kind != "glue":
        return
    size = len(metadata.model_dump_json())
    if size > GLUE_METADATA_BYTES // 2:
        yield f"warning: metadata of {size / 1e6:.1f} MB, of which Glue takes 20: keep fewer snapshots"
    for name, value in metadata.properties.items():
        if len(value) > GLUE_VALUE_BYTES // 2:
            yield f"warning: {name} has {len(value):,} bytes, of which Glue takes {GLUE_VALUE_BYTES:,}"
