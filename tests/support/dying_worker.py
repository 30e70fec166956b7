"""A record that the worker dies of: a fail point that kills the process about to decode a given offset."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_DECODE = re.compile(r"split\.decode-(\d+):(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class DiesOf:
    """SIGKILL for the worker whose chunk holds the offset; each death is a line in the file ``deaths``."""

    partition: int
    offset: int
    deaths: Path

    def reach(self, name: str) -> None:
        """Die here if the record is about to be decoded."""
        found = _DECODE.fullmatch(name)
        if found is None:
            return
        partition, start, end = map(int, found.groups())
        if partition == self.partition and start <= self.offset < end:
            with self.deaths.open("a") as deaths:
                deaths.write(f"{name}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def ranges(self) -> list[str]:
        """The chunks that were died of, each once, in order."""
        return list(dict.fromkeys(self.deaths.read_text().splitlines()))
