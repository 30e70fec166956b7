"""IAM tokens for Amazon MSK, signed locally by AWS's library."""

from __future__ import annotations

import atexit
import ctypes
import gc
import logging
from collections.abc import Callable
from threading import Lock, Timer

from confluent_kafka.cimpl import Consumer, Producer, _AdminClientImpl

from spark_jobs.protocol.errors import fault, needs

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0


class _NoCollection:
    """Pause of garbage collection while librdkafka requests tokens on its own thread.

    A client that nobody holds any more would end in it, and a client that ends there aborts the process. What
    was allocated meanwhile has the next allocation collect: that is another thread's, a second later.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._asking = 0

    def begin(self) -> None:
        """Pause the collection until the last request has ended."""
        gc.disable()
        with self._lock:
            self._asking += 1
            gc.disable()

    def end_soon(self) -> None:
        """Resume in a second, unless another request begins."""
        later = Timer(_PAUSE_SECONDS, self._end)
        later.daemon = True
        later.start()

    def _end(self) -> None:
        with self._lock:
            self._asking -= 1
        # Without the lock: a client that ends here waits for its thread, which may be waiting for that.
        if not self._asking:
            gc.enable()
        if self._asking:
            gc.disable()


_NO_COLLECTION = _NoCollection()


def _leave_clients_to_the_system() -> None:
    """Keep clients from being closed while Python exits.

    Ending waits for the client's thread. One that asks for a token then is given no turn by Python any more:
    the process would never end.
    """
    for client in gc.get_objects():
        if isinstance(client, (Consumer, Producer, _AdminClientImpl)):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))


def msk_tokens(region: str) -> Callable[[str], tuple[str, float]]:
    """Return a callback that gives librdkafka a token and its expiry in seconds.

    The first is made now: librdkafka would wait for it in vain and name no reason. Raises ``ConfigError``
    (``extra-missing``), and ``RetryableError`` (``no-token``) without credentials.
    """
    waiting = [_token(region)]
    atexit.unregister(_leave_clients_to_the_system)
    atexit.register(_leave_clients_to_the_system)

    def next_token(_properties: str) -> tuple[str, float]:
        _NO_COLLECTION.begin()
        try:
            return waiting.pop() if waiting else _token(region)
        except Exception as error:
            _log.warning("the token for MSK was not renewed, librdkafka tries again: %s", error)
            raise
        finally:
            _NO_COLLECTION.end_soon()

    return next_token


def _token(region: str) -> tuple[str, float]:
    with needs("msk"):  # whoever does not use MSK has none of AWS's packages
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    try:
        token, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (AttributeError, ValueError) as error:  # its words for no credentials at all, or empty ones
        raise fault("no-token", doing="signing", why="AWS's SDK finds no credentials here") from error
    except (BotoCoreError, ClientError) as error:
        raise fault("no-token", doing="signing", why=str(error)) from error
    return token, ends_ms / 1000
