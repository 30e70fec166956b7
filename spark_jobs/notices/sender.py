"""Sends notices of commits to a webhook: at least once, oldest first, without delaying a drain.

A sent notice is recorded in the transaction log, so a pending one survives any kill: the next run of any kind
sends it, and attempts with a pending notice stay in the log.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import requests
from requests.utils import get_auth_from_url

from spark_jobs import __version__
from spark_jobs.config.secrets import remember, resolve
from spark_jobs.config.sections import NotifySettings
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.data_files import partition_path
from spark_jobs.lake.tables import progress_of
from spark_jobs.mirror.keys import keys_in
from spark_jobs.notices.notice import MAX_KEYS, changed_keys, is_expired, notice_of, owes_notice
from spark_jobs.protocol.errors import ConfigError, SluiceError
from spark_jobs.txlog.entries import Attempt, Notified, ParquetWritten

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


# One POST to a webhook, with short timeouts and a simple outcome.


CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
# With these the receiver rejects the body for good. Other rejections (a wrong token, a wrong path, too many
# requests) can be fixed by a person, or pass.
_NEVER = frozenset({400, 410, 413, 415, 422})


class Delivery(StrEnum):
    """The outcome of a POST."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class Posted:
    """The result of a POST; ``detail`` is a status or an exception's type, since its text has the URL."""

    delivery: Delivery
    detail: str


def post(url: str, body: Mapping[str, Any], secret: str | None = None) -> Posted:
    """Send a notice once, signed if there is a secret.

    Redirects are not followed: they would turn the POST into a GET, or go elsewhere.
    """
    headers = {"User-Agent": f"sluice/{__version__}", "Idempotency-Key": str(body["id"])}
    try:
        sent = json.dumps(body, allow_nan=False).encode()
        if secret is not None:
            headers["Sluice-Signature"] = signature(sent, secret, int(time.time()))
        written = get_auth_from_url(url)
        # The body of the answer is not read: it may be of any size.
        with requests.post(
            url,
            data=sent,
            headers={"Content-Type": "application/json", **headers},
            # Set explicitly, or credentials for that host from the user's .netrc would be sent.
            auth=written if any(written) else (lambda request: request),
            timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
            allow_redirects=False,
            stream=True,
        ) as answer:
            status = answer.status_code
    except (requests.RequestException, OSError, ValueError) as error:
        return Posted(Delivery.AWAY, type(error).__name__)
    if requests.codes.ok <= status < requests.codes.multiple_choices:
        return Posted(Delivery.DELIVERED, f"HTTP {status}")
    return Posted(Delivery.REFUSED if status in _NEVER else Delivery.AWAY, f"HTTP {status}")


def signature(body: bytes, secret: str, at: int) -> str:
    """Return the header: the time in seconds, and the HMAC-SHA256 of that, a dot and the body."""
    signed = hmac.new(secret.encode(), b"%d.%s" % (at, body), hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


if TYPE_CHECKING:
    ToReceiver: TypeAlias = Callable[[Mapping[str, Any]], Posted]

_log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
SHORTEST_SECRET = 16  # an empty variable would be a secret that anyone can guess
_OWED = "notices of %s could not be sent, a later run sends them: %s"
_GIVEN_UP = "GIVEN UP: the notice of commit %s of %s (%s, %s): drop caches of that table by hand"
# The time at the end of a run to send its last notices; a slow receiver gets them from the next run.
FAREWELL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NoticesSent:
    """The notices sent by one call.

    ``given_up`` were rejected for good or are too old; ``owing`` is the reason why others are still pending,
    else empty.
    """

    delivered: int = 0
    given_up: int = 0
    owing: str = ""


def send_owed(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> NoticesSent:
    """Send the pending notices, oldest first, until the receiver fails or ``is_over`` returns True.

    Two senders at once send a notice twice, with the same ``id``. A URL whose secret is missing counts as a
    receiver that does not answer. Raises ``RetryableError`` if log or catalog do not answer.
    """
    webhook = pipeline.notify.webhook
    table = load_fresh(connections, pipeline.table) if webhook else None
    if webhook is None or table is None:
        return NoticesSent()
    to_receiver = receiver_of(pipeline.notify, "webhook")
    log, table_uuid = connections.txlog, str(table.metadata.table_uuid)
    sent = NoticesSent()
    for attempt in filter(owes_notice, log.read_each(table_uuid, log.without_notice(table_uuid))):
        if is_over():
            return replace(sent, owing="the run ended before they were sent")
        posted = _send(to_receiver, attempt, table, connections)
        outcome: str = posted.delivery
        if posted.delivery is Delivery.AWAY:
            if not is_expired(attempt, connections.now_us()):
                return replace(sent, owing=posted.detail)
            outcome = "expired"
        if posted.delivery is Delivery.DELIVERED:
            sent = replace(sent, delivered=sent.delivered + 1)
        else:
            sent = replace(sent, given_up=sent.given_up + 1)
            _log.error(_GIVEN_UP, attempt.uuid, pipeline.table, outcome, posted.detail)
        _mark(attempt, outcome, connections)
    return sent


def send_pending(pipeline: PipelineConfig, connections: Connections) -> None:
    """Send the pending notices within the time that a drain's end takes; failures are only logged."""
    with NoticeSender(pipeline, connections):
        pass


class NoticeSender:
    """Sends notices in the background during a run; does nothing without a webhook."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections) -> None:
        self._pipeline = pipeline
        self._connections = connections
        self._something_landed = threading.Event()
        self._something_landed.set()  # by an earlier run
        self._is_over = threading.Event()
        self._deadline = math.inf
        self._warned_of = ""
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)

    def __enter__(self) -> Self:
        if self._pipeline.notify.webhook is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._deadline = time.monotonic() + FAREWELL_SECONDS
        self._is_over.set()
        self._something_landed.set()
        if self._thread.ident is not None:
            self._thread.join(FAREWELL_SECONDS)

    def notify(self) -> None:
        """Start sending the notices of finished commits; return at once."""
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
        """Send the pending notices; return True if some are still pending."""
        try:
            sent = send_owed(
                self._pipeline, self._connections, is_over=lambda: time.monotonic() >= self._deadline
            )
        except SluiceError as error:
            sent = NoticesSent(owing=str(error))
        except Exception:  # noqa: BLE001  (a notice must never end a drain; it stays owed)
            _log.exception("notices of %s could not be sent", self._pipeline.name)
            return True
        # Once for each reason in a row: the receiver of a long run may be away for all of it.
        if sent.owing and sent.owing != self._warned_of:
            warn_of_owed(self._pipeline, sent)
            self._warned_of = sent.owing
        return bool(sent.owing)


def warn_of_owed(pipeline: PipelineConfig, sent: NoticesSent) -> None:
    """Log a warning if notices are still pending; the work itself continues."""
    if sent.owing:
        _log.warning(_OWED, pipeline.name, sent.owing)


def _send(to_receiver: ToReceiver, attempt: Attempt, table: Table, connections: Connections) -> Posted:
    written = attempt.entry(ParquetWritten)
    paths = {partition_path(file, table.metadata) for file in (written.data_files if written else ())}
    changed = changed_keys(attempt) if progress_of(table).table_layout.keeps_newest else None
    keys = None
    if written is not None and changed is not None and changed <= MAX_KEYS:
        keys = keys_in(table, written.data_files, most=MAX_KEYS)
    connections.fail_points.reach("notice.before-post")
    posted = to_receiver(notice_of(attempt, paths, changed=changed, keys=keys))
    connections.fail_points.reach("notice.after-post")
    return posted


def _mark(attempt: Attempt, outcome: str, connections: Connections) -> None:
    """Record in the log that the attempt's notice is no longer pending."""
    if attempt.batch is None:
        raise AssertionError("an unreadable attempt has no pending notice")
    mark = Notified(outcome, connections.run_id, connections.now_us())
    connections.txlog.append(attempt.table_uuid, attempt.batch, mark, reached=attempt.reached)


def receiver_of(notify: NotifySettings, key: str) -> ToReceiver:
    """Return the function that sends a notice to the URL of that key, signed if there is a secret.

    If URL or secret cannot be resolved, or the secret is too short, it reports an unreachable receiver.
    """
    written = {f"notify.{name}": getattr(notify, name) for name in (key, "secret")}
    try:
        found = resolve({name: each.get_secret_value() for name, each in written.items() if each is not None})
    except ConfigError as error:
        away = Posted(Delivery.AWAY, str(error))
        return lambda _notice: away
    remember(url := found[f"notify.{key}"])
    secret = found.get("notify.secret")
    if secret is not None and len(secret) < SHORTEST_SECRET:
        short = Posted(Delivery.AWAY, f"notify.secret has fewer than {SHORTEST_SECRET} characters")
        return lambda _notice: short
    return partial(post, url, secret=secret)
