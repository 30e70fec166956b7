"""Tells a webhook of commits: at least once, oldest first, and never in a drain's way.

What was told is a mark in the transaction log, so what was not told survives any kill: the next run of any
kind sends it, and a checkpoint folds no attempt whose notice is owed.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from spark_jobs.core.errors import SluiceError
from spark_jobs.core.notice import is_expired, notice_of, owes_notice
from spark_jobs.core.txlog import Notified, ParquetWritten
from spark_jobs.io.data_files import partition_path
from spark_jobs.io.secrets import remember, resolve
from spark_jobs.io.tables import load_fresh
from spark_jobs.io.webhook import Delivery, post

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyiceberg.table import Table

    from spark_jobs.core.config import PipelineConfig
    from spark_jobs.core.txlog import Attempt
    from spark_jobs.io.connections import Connections

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# A receiver that answers has the last commit's notice within this; a slow one gets it from the next run.
FAREWELL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NoticesSent:
    """``given_up`` were refused for good or too old; ``is_owing``: the receiver did not take them all yet."""

    delivered: int = 0
    given_up: int = 0
    is_owing: bool = False


def send_owed(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> NoticesSent:
    """Send what is owed, oldest first, until the receiver is away or ``is_over``.

    Two senders at once send a notice twice, which its ``id`` tells. Raises ``ConfigError`` for a secret that
    is missing and ``RetryableError`` when log or catalog are away.
    """
    url = _url(pipeline)
    table = None if url is None else load_fresh(connections, pipeline.table)
    if url is None or table is None:
        return NoticesSent()
    log, table_uuid = connections.txlog, str(table.metadata.table_uuid)
    sent = NoticesSent()
    for attempt in filter(owes_notice, log.read_each(table_uuid, log.untold(table_uuid))):
        outcome = None if is_over() else _send(url, attempt, table, connections)
        if outcome is None:
            return replace(sent, is_owing=True)
        if outcome == Delivery.DELIVERED:
            sent = replace(sent, delivered=sent.delivered + 1)
        else:
            sent = replace(sent, given_up=sent.given_up + 1)
    return sent


class NoticeSender:
    """Sends in the background while a run lasts; without a webhook it does nothing."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections) -> None:
        self._pipeline = pipeline
        self._connections = connections
        self._something_landed = threading.Event()
        self._something_landed.set()  # by an earlier run
        self._is_over = threading.Event()
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)

    def __enter__(self) -> Self:
        if self._pipeline.notify.webhook is not None:
            self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._deadline = time.monotonic() + FAREWELL_SECONDS
        self._is_over.set()
        self._something_landed.set()
        if self._thread.ident is not None:
            self._thread.join(FAREWELL_SECONDS)

    def tell(self) -> None:
        """Something landed; returns at once."""
        self._something_landed.set()

    def _work(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        timeout: float | None = None
        while time.monotonic() < self._deadline:
            self._something_landed.wait(timeout)
            self._something_landed.clear()
            is_last = self._is_over.is_set()
            is_stuck = self._send_once()
            if is_last:
                return
            timeout = pause if is_stuck else None
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS) if is_stuck else FIRST_PAUSE_SECONDS

    def _send_once(self) -> bool:
        """Whether something is still owed."""
        try:
            sent = send_owed(
                self._pipeline, self._connections, is_over=lambda: time.monotonic() >= self._deadline
            )
        except SluiceError as error:
            _log.warning("notices of %s wait for the next run: %s", self._pipeline.name, error)
        except Exception:  # noqa: BLE001  (a notice must never end a drain; it stays owed)
            _log.exception("notices of %s wait for the next run", self._pipeline.name)
        else:
            return sent.is_owing
        return True


def _send(url: str, attempt: Attempt, table: Table, connections: Connections) -> str | None:
    """The outcome to remember, None while the notice stays owed."""
    written = attempt.entry(ParquetWritten)
    paths = {partition_path(file, table.metadata) for file in (written.data_files if written else ())}
    connections.fail_points.reach("notice.before-post")
    posted = post(url, notice_of(attempt, paths))
    connections.fail_points.reach("notice.after-post")
    outcome: str = posted.delivery
    if posted.delivery is Delivery.AWAY:
        if not is_expired(attempt, connections.now_us()):
            _log.warning("the webhook of %s did not take a notice (%s)", _name(attempt), posted.detail)
            return None
        outcome = "expired"
    if posted.delivery is not Delivery.DELIVERED:
        _log.error(
            "GIVEN UP: the notice of commit %s of %s (%s, %s): drop what you cached of it by hand",
            attempt.uuid,
            _name(attempt),
            outcome,
            posted.detail,
        )
    if attempt.batch is None:
        raise AssertionError("an attempt that cannot be read owes nothing")
    mark = Notified(outcome, connections.run_id, connections.now_us())
    connections.txlog.append(attempt.table_uuid, attempt.batch, mark, reached=attempt.reached)
    return outcome


def _name(attempt: Attempt) -> str:
    return attempt.batch.table if attempt.batch else attempt.table_uuid


def _url(pipeline: PipelineConfig) -> str | None:
    written = pipeline.notify.webhook
    if written is None:
        return None
    url = resolve({"notify.webhook": written.get_secret_value()})["notify.webhook"]
    remember(url)
    return url
