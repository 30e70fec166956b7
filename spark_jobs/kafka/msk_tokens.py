"""Tokens with which Amazon MSK knows its clients by IAM. Signed here, by AWS's library: nobody is asked."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from threading import Lock

from spark_jobs.kafka.errors import no_token
from spark_jobs.protocol.errors import ConfigError

_log = logging.getLogger(__name__)
_ONE_AT_A_TIME = Lock()


def msk_tokens(region: str) -> Callable[[str], tuple[str, float]]:
    """Return what librdkafka asks for a token, and when that ends, in seconds; it asks well before the end.

    The first is made now: librdkafka would wait for it in vain and name no reason. Raises ``ConfigError``
    (``extra-missing``), and ``RetryableError`` (``no-token``) without credentials.
    """
    waiting = [_token(region)]

    def next_token(_properties: str) -> tuple[str, float]:
        # The thread is librdkafka's own: a client that nobody holds any more must not be collected in it, for
        # one that ends there aborts the process. Paused at once, and again where nobody else may resume.
        gc.disable()
        with _ONE_AT_A_TIME:
            gc.disable()
            try:
                return waiting.pop() if waiting else _token(region)
            except Exception as error:
                _log.warning("the token for MSK was not renewed, librdkafka asks again: %s", error)
                raise
            finally:
                gc.enable()

    return next_token


def _token(region: str) -> tuple[str, float]:
    try:
        # An extra: whoever does not use MSK has none of AWS's packages.
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "kafka_auth.aws_msk_iam needs the package aws-msk-iam-sasl-signer-python, which is not installed",
            code="extra-missing",
            hint="Say `extras: [msk]`: the launcher installs it, elsewhere pip does from"
            " bootstrap/extra-msk.txt. Spark's workers need the package too.",
        ) from error
    try:
        token, ends_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (AttributeError, ValueError) as error:  # its words for no credentials at all, or empty ones
        raise no_token("signing", "AWS's SDK finds no credentials here") from error
    except (BotoCoreError, ClientError) as error:
        raise no_token("signing", str(error)) from error
    return token, ends_ms / 1000
