"""A pipeline's failures: counted by error code, and sent to a webhook once until the work succeeds again.

Both are stored in a small file of the state folder, like the last audit, since runs are short. If the file is
lost, the counts restart and one failure may be sent twice.
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
    """The failures of a pipeline: ``counts`` of failed runs by error code.

    By kind of work, since its last success: ``told`` has the codes that the webhook accepted, ``last`` the
    latest failure. A retryable failure never replaces one that needs a person.
    """

    counts: dict[str, int] = field(default_factory=dict)
    told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    last: dict[str, Failure] = field(default_factory=dict)


_FILE = JsonCodec(Failures)


def read_failures(home: str, pipeline: str) -> Failures:
    """Return the failures so far; empty without a readable file."""
    try:
        return _FILE.from_json(_path(home, pipeline).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Failures()


def last_failures(home: str, pipeline: str, committed_at_ms: int | None) -> dict[str, Failure]:
    """Return the last failure by kind of work; after a commit only that of upkeep."""
    last = read_failures(home, pipeline).last
    return {
        work: failure
        for work, failure in sorted(last.items())
        if work == UPKEEP or failure.at_ms >= (committed_at_ms or 0)
    }


def work_failed(
    home: str, pipeline: PipelineConfig, work: str, error: SluiceError, *, attempt: str = ""
) -> None:
    """Count a failure, and send it to ``notify.trouble`` unless its code was sent already; never raises.

    A commit conflict with another run is only counted, since it needs no action.
    """
    found = read_failures(home, pipeline.name)
    counts = {**found.counts, error.code: found.counts.get(error.code, 0) + 1}
    told, last = found.told.get(work, ()), found.last
    if not isinstance(error, CommitConflict):
        if error.code not in told and _send(pipeline, work, error):
            told = (*told, error.code)
        before = last.get(work)
        if before is None or before.is_retryable or not error.is_retryable:
            last = {**last, work: _failure(error, before, attempt)}
    _write(home, pipeline.name, Failures(counts, {**found.told, work: told}, last))


def work_succeeded(home: str, pipeline: PipelineConfig, work: str) -> None:
    """Record a success: later failures of this work are sent again."""
    found = read_failures(home, pipeline.name)
    if found.told.get(work) or work in found.last:
        last = {other: failure for other, failure in found.last.items() if other != work}
        _write(home, pipeline.name, Failures(found.counts, {**found.told, work: ()}, last))


def trouble_of(pipeline: PipelineConfig, work: str, error: SluiceError, at_us: int) -> dict[str, Any]:
    """Return the body of the POST; chat tools show ``text``."""
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


def _send(pipeline: PipelineConfig, work: str, error: SluiceError) -> bool:
    if pipeline.notify.trouble is None:
        return False
    to_receiver = receiver_of(pipeline.notify, "trouble")
    posted = to_receiver(trouble_of(pipeline, work, error, time.time_ns() // 1000))
    if posted.delivery is not Delivery.DELIVERED:
        _log.warning(
            "the webhook for failures of %s did not accept a notice, the next failed run sends it again: %s",
            pipeline.name,
            posted.detail,
        )
    return posted.delivery is Delivery.DELIVERED


def _write(home: str, pipeline: str, failures: Failures) -> None:
    try:
        write_whole(_path(home, pipeline), json.dumps(dataclasses.asdict(failures)))
    except OSError as error:  # a full disk is not what the run failed of
        _log.warning("a failure of %s could not be counted: %s", pipeline, type(error).__name__)


def _path(home: str, pipeline: str) -> Path:
    return Path(home) / "failures" / f"{pipeline}.json"
