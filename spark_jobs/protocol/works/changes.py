"""Changes of a table's progress, mostly operators' acts: commits without rows. Pure."""

from __future__ import annotations

from functools import partial

from spark_jobs.protocol.work import Behind, Effect, Fence, Touched, Work

# What did not land of one does no harm, whatever the table counts.
_change = partial(Work, touches=Touched.NONE, writes_files=False, fence=Fence(lambda _: 0))

SKIP = _change("skip", effect=Effect.PASSED_OVER)
DISCARD = _change("discard", effect=Effect.PASSED_OVER)
PAUSE = _change("pause")
RESUME = _change("resume")
ROLLBACK = _change("rollback", touches=Touched.ANY)
ACCEPT = _change("accept")
# Its commits exchange columns, and files whose rows get values in the new one.
RETYPE = Behind("retype", touches=Touched.ANY)
REPARTITION = _change("repartition")
CANCEL = _change("cancel")  # a replay is given up
REANCHOR = _change("reanchor")  # by upkeep
