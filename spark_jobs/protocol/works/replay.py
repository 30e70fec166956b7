"""The replay: drained offsets are read from Kafka again and replace their rows. Pure.

No offset moves, so that the replay epoch fences it; recovery gives up what did not land, and sweeps it.
"""

from __future__ import annotations

from spark_jobs.protocol.work import Behind, Check, Effect, Touched

REPLAY = Behind(
    "replay",
    touches=Touched.ANY,
    effect=Effect.EACH,
    checks=(Check.OFFSETS, Check.LOSSES, Check.DEAD_LETTERS),
)
