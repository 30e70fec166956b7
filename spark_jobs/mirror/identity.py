"""Which identity of its source an event is of: its positions are compared with those of the same one alone.

A database that is restored from a backup counts its log from an earlier place. Once an operator accepted
that, what is told from there on is of another identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


Restarts = Sequence[Mapping[int, int]]


def identities_of(
    partitions: NDArray[np.int64], offsets: NDArray[np.int64], restarts: Restarts
) -> NDArray[np.int64]:
    """Return by event how many restarts came before it, or began with it.

    ``restarts`` are first offsets by partition; a partition that one does not name was added since.
    """
    identities = np.zeros(len(offsets), np.int64)
    for partition in each_once(partitions).tolist() if restarts else ():
        at = partitions == partition
        for firsts in restarts:
            identities[at] += offsets[at] >= firsts.get(partition, 0)
    return identities


def identity_of(partition: int, offset: int, restarts: Restarts) -> int:
    """Return how many restarts came before one event, or began with it."""
    return sum(offset >= firsts.get(partition, 0) for firsts in restarts)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the source's table was emptied: what stood below ``sequence`` in its log is gone.

    So is all of the identities before.
    """

    identity: int
    sequence: int
    restarts: Restarts = ()

    def takes(
        self, partitions: NDArray[np.int64], offsets: NDArray[np.int64], sequences: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which rows, or events, are gone by it."""
        identities = identities_of(partitions, offsets, self.restarts)
        is_same = identities == self.identity
        gone: NDArray[np.bool_] = (identities < self.identity) | (is_same & (sequences < self.sequence))
        return gone


# Numbers of rows and partitions, each once.


def each_once(numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the numbers in order, each once.

    NumPy sorts when it is asked for counts, too. Without them it hashes: 1.3 µs a position, 50 times as long.
    """
    found: NDArray[np.int64] = np.unique(numbers, return_counts=True)[0].astype(np.int64, copy=False)
    return found
