"""Orphan removal after a commit that never landed: it removes old files and nothing else."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from prove.lab.pipeline_lab import make_old
from prove.lab.s3 import make_objects_old
from prove.workload import Workload


@dataclass(frozen=True, slots=True)
class Removal:
    """Result of a removal; ``left`` are data files unnamed before, ``unkept`` its mistakes."""

    left: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[str, ...]:
        """Return descriptions of the files that it could remove."""
        names = ", ".join(path.rpartition("/")[2] for path in self.left)
        return (f"left to orphan removal: {names}",) if names else ()


def remove_left(workload: Workload, written: AbstractSet[str]) -> Removal:
    """Run orphan removal with all files old; ``written`` are those of the interrupted work."""
    left, before = workload.lab.stray_files(), workload.lab.files()
    _make_all_old(workload)
    workload.run("orphans")
    return judge_removal(left, written, before - workload.lab.files())


def judge_removal(left: AbstractSet[str], written: AbstractSet[str], gone: AbstractSet[str]) -> Removal:
    """Compare the files ``gone`` with those that were unnamed and those written."""
    wrong = {
        "is not what the struck work wrote": left - written,
        "was not taken by orphan removal": left - gone,
        "was taken by orphan removal, too": gone - written,
    }
    unkept = (f"{path} {what}" for what, paths in wrong.items() for path in sorted(paths))
    return Removal(tuple(sorted(left)), tuple(unkept))


def _make_all_old(workload: Workload) -> None:
    properties, location = workload.lab.config.catalog.properties, workload.lab.table().location()
    if location.startswith("s3://"):
        make_objects_old(properties["s3.endpoint"], location)
    else:
        make_old(workload.lab.files())
