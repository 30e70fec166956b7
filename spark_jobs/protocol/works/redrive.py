"""A redrive: dead letters sent through once more, without Kafka; rows of them are added, and they go. Pure.

They were dead letters before, so that no number of them stops it. Fenced and recovered as a replay.
"""

from __future__ import annotations

from spark_jobs.protocol.work import Behind, Check, Told

REDRIVE = Behind("redrive", told=Told.SOME, checks=(Check.LETTERS,))
