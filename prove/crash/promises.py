"""Promises: the state after a restart, and the repairs that runs must have done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from prove.lab.drain_process import Repairs
from prove.workload import BATCH

# A partition's offsets with rows and dead letters, and how many records they are.
REPLAYED = "0:5-22"
REPLAYED_RECORDS = 17
DEAR_RECORDS = 2  # of a batch that a gate holds


NOTHING = Repairs()


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise; ``text`` is for people, the rest are exact numbers, each one of those listed.

    ``may_read_again`` are records that Kafka is asked for again, ``repairs`` is what put things right.
    Only orphan removal takes away ``orphans``, files of a dead fold in the books, and ``strays``, data files
    of a compaction that never landed. ``refused`` is the
    code with which the first run afterwards ends instead of well, ``replaced`` whether a replay's rows were
    in before it ran again; None where that is open, or there is no replay.
    """

    text: str
    repairs: tuple[Repairs, ...]
    may_read_again: tuple[int, ...] = (0,)
    orphans: tuple[int, ...] = (0,)
    strays: int = 0
    refused: str | None = None
    replaced: bool | None = None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Promises for a commit whose client does not get the expected answer.

    ``over`` is for a run that found out by itself, the others for one that ended with an error, or went on
    without knowing (``over`` is None).
    """

    text: str
    over: Promise | None
    landed: Promise
    not_landed: Promise

    def late(self, *, has_landed: bool) -> Promise:
        """Return the promise for a commit that arrived during later runs, which may have settled it."""
        if not has_landed:
            return self.not_landed
        either = (self.landed, self.not_landed)
        return replace(
            self.landed,
            repairs=tuple(repairs for each in either for repairs in each.repairs),
            orphans=tuple(number for each in either for number in each.orphans),
            replaced=None,
        )


def promise(
    text: str, repairs: Repairs = NOTHING, *, read: int = 0, orphans: int = 0, **more: Any
) -> Promise:
    """Return a promise with one number per count."""
    return Promise(text, (repairs,), (read,), (orphans,), **more)


AGAIN = promise(
    "its range is read and committed again, its files are swept", Repairs(swept=1, committed=1), read=BATCH
)
UNBEGUN = promise("its range is read again, nothing of it is there", Repairs(committed=1), read=BATCH)
ADOPTED = promise("its files are committed, nothing is read again", Repairs(adopted=1))
FOUND = promise("its commit is found, nothing is read again", Repairs(found_landed=1))
SWEPT = promise("what it had committed stays, what another one left is swept", Repairs(swept=1))
OVER = promise("it was over: nothing is left to do or to read again")
SETTLED = Outcomes("whatever was answered, the table is asked; nothing is read again", OVER, FOUND, ADOPTED)
COLUMNS_SETTLED = Outcomes(
    "whatever was answered, the table is asked; who found no answer leaves the batch to the next run",
    OVER,
    AGAIN,
    AGAIN,
)
DEAD_LETTERS_SETTLED = Outcomes(SETTLED.text, OVER, FOUND, FOUND)
_BOOKED = "each attempt is in the books once"
UNBOOKED = promise(f"{_BOOKED}; a dead fold's file is left to orphan removal", Repairs(folded=2), orphans=1)
BOOKED = promise(f"{_BOOKED}, nothing is read again", Repairs(folded=2))
BOOKS_SETTLED = Outcomes(BOOKED.text, OVER, BOOKED, UNBOOKED)
_REPLAYED = "run again, it replaces exactly its rows"
REPLAYED_ONCE = promise(
    f"it replaced nothing and is given up; {_REPLAYED}",
    Repairs(swept=1, committed=1),
    read=REPLAYED_RECORDS,
    replaced=False,
)
REPLAYED_TWICE = promise(
    f"its rows are in, all of them; {_REPLAYED}",
    Repairs(found_landed=1, committed=1),
    read=REPLAYED_RECORDS,
    replaced=True,
)
# Giving up a replay that died is an act, which may itself have died.
GIVEN_UP_AGAIN = replace(REPLAYED_ONCE, repairs=(Repairs(swept=2, committed=1),))
GIVEN_UP = replace(REPLAYED_ONCE, repairs=(Repairs(found_landed=1, swept=1, committed=1),))
REPLAY_OVER = promise(f"it was over; {_REPLAYED}", Repairs(committed=1), read=REPLAYED_RECORDS, replaced=True)
REPLAY_SETTLED = Outcomes(_REPLAYED, REPLAY_OVER, REPLAYED_TWICE, REPLAYED_ONCE)
REPLAY_LANDED = Outcomes(_REPLAYED, REPLAY_OVER, REPLAYED_TWICE, REPLAYED_TWICE)
_REDRIVEN = "run again, what is no row yet goes through again"
REDRIVEN_ONCE = promise(
    f"its dead letters are as they were and it is given up; {_REDRIVEN}", Repairs(swept=1, committed=1)
)
REDRIVEN_TWICE = promise(
    f"its rows are in, and exactly their dead letters are gone; {_REDRIVEN}",
    Repairs(found_landed=1, committed=1),
)
REDRIVE_OVER = promise(f"it was over; {_REDRIVEN}", Repairs(committed=1))
REDRIVE_SETTLED = Outcomes(_REDRIVEN, REDRIVE_OVER, REDRIVEN_TWICE, REDRIVEN_ONCE)
REDRIVE_LANDED = Outcomes(_REDRIVEN, REDRIVE_OVER, REDRIVEN_TWICE, REDRIVEN_TWICE)
NOT_ROLLED_BACK = promise("it changed nothing, nothing is read again", Repairs(swept=1))
ROLLED_BACK = promise("rolled back, and then filled again", Repairs(found_landed=1, committed=1), read=BATCH)
ROLLBACK_OVER = promise(ROLLED_BACK.text, Repairs(committed=1), read=BATCH)
ROLLBACK_SETTLED = Outcomes(
    "rolled back or not, and then filled again", ROLLBACK_OVER, ROLLED_BACK, NOT_ROLLED_BACK
)
TIDIED = promise("run again, it is done; nothing is read again")
TIDIED_ANYHOW = Outcomes(TIDIED.text, TIDIED, TIDIED, TIDIED)
ORPHANED = promise(
    f"{TIDIED.text}; the file of one that never landed goes with orphan removal, and nothing else does",
    strays=1,
)
TIDIED_UNKNOWING = Outcomes(ORPHANED.text, None, TIDIED, ORPHANED)

# A batch that a gate held is judged anew when the log does not have its files, and stays held when it has.
JUDGED_AGAIN = promise(
    "its range is read and judged again, held and published", Repairs(held=1, adopted=1), read=DEAR_RECORDS
)
REJECTED_AGAIN = replace(AGAIN, may_read_again=(DEAR_RECORDS,))
HELD_STILL = promise("it stays held; published, nothing is read again", Repairs(held=1, adopted=1))
DISCARDED_AGAIN = promise("it changed nothing; discarded again, its files are swept")
DISCARDED = promise(
    "it is discarded, its files are swept", Repairs(found_landed=1, swept=1), refused="nothing-held"
)
DISCARD_OVER = promise("it is discarded, its files are swept", Repairs(swept=1), refused="nothing-held")
# Accepting first settles what earlier runs left, the act that died too.
ACCEPTED_AGAIN = promise("it changed nothing; accepted again, the table goes on", Repairs(committed=1))
ACCEPTED = promise("it is accepted, the table goes on")
RETYPED_ON = promise("the same command goes on where it was, nothing is read again")
RETYPE_OVER = replace(RETYPED_ON, text="it was over, and is told so", refused="cannot-retype")
EXPORTED = promise("run again it goes on: each record is in the topic once, as it came, and in order")
