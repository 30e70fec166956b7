"""What a commit that never landed leaves: orphan removal takes that once it is old, and nothing else."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from prove.lab.pipeline_lab import make_old
from prove.lab.s3 import make_objects_old
from prove.workload import Workload


@dataclass(frozen=True, slots=True)
class Removal:
    """``left`` are the data files that nothing named before it came, ``unkept`` what it did otherwise."""

    left: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()

    @property
    def events(self) -> tuple[str, ...]:
        """Return in words which files it was left."""
        names = ", ".join(path.rpartition("/")[2] for path in self.left)
        return (f"left to orphan removal: {names}",) if names else ()


def remove_left(workload: Workload, written: AbstractSet[str]) -> Removal:
    """Let orphan removal come when all files of the table are old; ``written`` are the struck work's."""
    left, before = workload.lab.stray_files(), workload.lab.files()
    _make_all_old(workload)
    workload.run("orphans")
    return judge_removal(left, written, before - workload.lab.files())


def judge_removal(left: AbstractSet[str], written: AbstractSet[str], gone: AbstractSet[str]) -> Removal:
    """Hold the files that are ``gone`` with it against those that were left and those that were written."""
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
