"""Figures of a table's metadata, by which upkeep is decided and judged. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024
# A partition with fewer files than this is left alone: rewriting it would cost more than it brings.
MIN_FILES_TO_MERGE = 5


@dataclass(frozen=True, slots=True)
class Tier:
    """A compaction tier: files below ``below_bytes`` are merged into ones of ``target_bytes``."""

    name: str
    below_bytes: int
    target_bytes: int


# What a drain of seconds writes is far below 16 MiB. A row is rewritten a few times by the first tier, until
# its file has left it, and once more by the second; one tier would rewrite large files for every small one.
SMALL = Tier("small", 16 * MIB, 64 * MIB)
MEDIUM = Tier("medium", 128 * MIB, 512 * MIB)


@dataclass(frozen=True, slots=True)
class TableFigures:
    """Counts of a table's current metadata; files, rows, bytes and manifests are those of main.

    ``small_files`` are below ``SMALL``, ``medium_files`` between it and ``MEDIUM``; the mergeable ones among
    them share their partition with enough others. ``rows`` are those in data files, ``deleted_rows`` of them
    stand in delete files by their positions. ``expirable_snapshots`` are held by no branch or tag,
    the oldest of them is from ``oldest_expirable_ms`` (since the epoch). ``small_manifests`` would fit into
    fewer ones. ``shows_history`` and ``keeps_garbage`` say what the catalog allows: Nessie, with a history of
    its own, shows none of the table's and forbids deleting what it may still show.
    """

    data_files: int = 0
    small_files: int = 0
    medium_files: int = 0
    mergeable_small_files: int = 0
    mergeable_medium_files: int = 0
    delete_files: int = 0
    deleted_rows: int = 0
    rows: int = 0
    bytes: int = 0
    snapshots: int = 0
    expirable_snapshots: int = 0
    oldest_expirable_ms: int | None = None
    manifests: int = 0
    small_manifests: int = 0
    manifest_bytes: int = 0
    shows_history: bool = True
    keeps_garbage: bool = False
