"""A data file that was written and that no snapshot names yet: what a commit needs to know of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One Parquet file, from the writer to the commit; ``spark_jobs.lake.data_files`` makes and reads it.

    Its JSON form, these names in this order, stands in tasks' outcomes, the transaction log and table
    properties. ``rows`` and ``bytes`` are its size; counts and bounds go by field id. Bounds and the values
    of its ``partition``, by the fields of the spec with ``spec_id``, are base64 of Iceberg's single-value
    serialisation, so that every type comes back exactly; None is a null.
    """

    path: str
    spec_id: int
    partition: tuple[str | None, ...]
    rows: int
    bytes: int
    split_offsets: tuple[int, ...] | None
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, str]
    upper_bounds: dict[int, str]
