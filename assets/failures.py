"""The one place where errors become Dagster failures: named, scrubbed of secrets, never retried by Dagster.

Retrying is the backlog sensor's alone: its next request carries a new attempt number and waits longer each
time. ``allow_retries=False`` speaks to one of Dagster's three retry mechanisms, ``NO_RETRY_TAGS`` to two.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure, MetadataValue

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import SluiceError

NO_RETRY_TAGS = {"dagster/max_retries": "0", "dagster/retry_on_asset_or_op_failure": "false"}


@contextmanager
def named_failures() -> Iterator[None]:
    """Translate every exception but a termination into a ``Failure``."""
    try:
        yield
    except SluiceError as error:
        raise _failure(error) from None
    except Exception as error:  # noqa: BLE001  (the boundary to Dagster)
        # A driver's exception may quote the connection string it was given.
        text = scrub("".join(traceback.format_exception(error)))
        raise Failure(
            description=scrub(f"{type(error).__name__}: {error}"),
            metadata={"traceback": MetadataValue.md(f"```\n{text}\n```")},
            allow_retries=False,
        ) from None


def _failure(error: SluiceError) -> Failure:
    return Failure(
        description=scrub(f"{error.message}\n{error.hint}\ndocs/ERRORS.md#{error.code}"),
        metadata={
            "code": error.code,
            "hint": scrub(error.hint),
            "described in": MetadataValue.url(f"/docs/ERRORS.md#{error.code}"),
            "may pass by itself": error.is_retryable,
            **{name: scrub(value) for name, value in error.where.items()},
        },
        allow_retries=False,
    )
