"""The redrive: dead letters become rows without Kafka, and are removed. Pure.

They were dead letters before, so that no number of them stops it. Fenced and recovered as a replay.
"""

from __future__ import annotations

from spark_jobs.protocol.work import Behind, Check, Effect

REDRIVE = Behind("redrive", effect=Effect.SOME, checks=(Check.LETTERS,))
