"""Names that more than one room must know. Pure."""

from __future__ import annotations

# One for all pipelines of a namespace, beside their tables.
BOOKS_TABLE = "sluice_batches"
