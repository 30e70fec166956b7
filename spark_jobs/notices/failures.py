"""What a pipeline's work failed of: counted by code, and told to a webhook once until it is well again.

Both stand in a small file of the state folder, as the last audit does: runs are short, so nothing else is
there to count in. Losing it costs the counts, and one more telling.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_jobs.config.secrets import scrub
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.notices.notice import NOTICE_FORMAT, UPKEEP, Failure, iso
from spark_jobs.notices.sender import Delivery, receiver_of
from spark_jobs.protocol.errors import CommitConflict, SluiceError
from spark_jobs.protocol.texts import JsonCodec
from spark_jobs.storage.state_files import write_whole

_log = logging.getLogger(__name__)

KIND = "trouble"


@dataclass(frozen=True, slots=True)
class Failures:
    """``counts`` of failed runs by code.

    By work, and only since that went well: ``told`` is what the webhook took, ``last`` the latest failure; an
    outage hides none that needs a person.
    """

    counts: dict[str, int] = field(default_factory=dict)
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    last: dict[str, Failure] = field(default_factory=dict)


_FILE = JsonCodec(Failures)


def read_failures(home: str, pipeline: str) -> Failures:
    """Return what was counted; nothing where there is no file, or none that can be read."""
    try:
        return _FILE.from_json(_path(home, pipeline).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Failures()


def last_failures(home: str, pipeline: str, committed_at_ms: int | None) -> dict[str, Failure]:
    """Return by work what the last of it here ended with; after a commit of upkeep alone."""
    last = read_failures(home, pipeline).last
    return {
        work: failure
        for work, failure in sorted(last.items())
        if work == UPKEEP or failure.at_ms >= (committed_at_ms or 0)
    }


def work_failed(
    home: str, pipeline: PipelineConfig, work: str, error: SluiceError, *, attempt: str = ""
) -> None:
    """Count it, and tell ``notify.trouble`` unless it was told of this code already; never raises.

    Another run that came first is counted and no trouble: nobody has to do anything.
    """
    found = read_failures(home, pipeline.name)
    counts = {**found.counts, error.code: found.counts.get(error.code, 0) + 1}
    told, last = found.told.get(work, ()), found.last
    if not isinstance(error, CommitConflict):
        if error.code not in told and _tell(pipeline, work, error):
            told = (*told, error.code)
        before = last.get(work)
        if before is None or before.is_retryable or not error.is_retryable:
            last = {**last, work: _failure(error, before, attempt)}
    _write(home, pipeline.name, Failures(counts, {**found.told, work: told}, last))


def work_succeeded(home: str, pipeline: PipelineConfig, work: str) -> None:
    """All is well: what this work fails of from now on is told anew."""
    found = read_failures(home, pipeline.name)
    if found.told.get(work) or work in found.last:
        last = {other: failure for other, failure in found.last.items() if other != work}
        _write(home, pipeline.name, Failures(found.counts, {**found.told, work: ()}, last))


def trouble_of(pipeline: PipelineConfig, work: str, error: SluiceError, at_us: int) -> dict[str, Any]:
    """Return the body of the POST; ``text`` is what chat rooms show."""
    return {
        "format": NOTICE_FORMAT,
        "id": str(uuid.uuid4()),
        "kind": KIND,
        "pipeline": pipeline.name,
        "table": pipeline.table,
        "topic": pipeline.topic,
        "work": work,
        "code": error.code,
        "message": scrub(error.message),
        "hint": scrub(error.hint),
        "needs_person": not error.is_retryable,
        "at": iso(at_us),
        "text": scrub(f"{work} of {pipeline.name} failed: {error}"),
    }


def _failure(error: SluiceError, before: Failure | None, attempt: str) -> Failure:
    at_ms, alike = time.time_ns() // 1_000_000, before if before and before.code == error.code else None
    return Failure(
        scrub(error.message),
        error.code,
        scrub(error.hint),
        at_ms,
        since_ms=(alike.since_ms or alike.at_ms) if alike else at_ms,
        times=alike.times + 1 if alike else 1,
        attempt=attempt or (alike.attempt if alike else ""),
        is_retryable=error.is_retryable,
    )


def _tell(pipeline: PipelineConfig, work: str, error: SluiceError) -> bool:
    if pipeline.notify.trouble is None:
        return False
    to_receiver = receiver_of(pipeline.notify, "trouble")
    posted = to_receiver(trouble_of(pipeline, work, error, time.time_ns() // 1000))
    if posted.delivery is not Delivery.DELIVERED:
        _log.warning("trouble of %s is told by the next failed run: %s", pipeline.name, posted.detail)
    return posted.delivery is Delivery.DELIVERED


def _write(home: str, pipeline: str, failures: Failures) -> None:
    try:
        write_whole(_path(home, pipeline), json.dumps(dataclasses.asdict(failures)))
    except OSError as error:  # a full disk is not what the run failed of
        _log.warning("failures of %s are not counted: %s", pipeline, type(error).__name__)


def _path(home: str, pipeline: str) -> Path:
    return Path(home) / "failures" / f"{pipeline}.json"
