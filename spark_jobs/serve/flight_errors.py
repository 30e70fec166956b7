"""Errors as Flight's statuses, in the words of ours and without secrets."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pyarrow import flight

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import RetryableError, SluiceError

_Method = TypeVar("_Method", bound=Callable[..., Any])
_OVER_TIME = {"query-timeout", "not-yet"}


def told(method: _Method) -> _Method:
    """Have a call of the server end with a Flight error and nothing else."""

    @wraps(method)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return method(*arguments, **named)
        except Exception as error:  # noqa: BLE001  (told to the client)
            raise flight_error(error) from None

    return called  # type: ignore[return-value]


def flight_error(error: BaseException) -> Any:
    """Return an error for the client: whose matter it is by its status, and whether asking again helps."""
    if isinstance(error, flight.FlightError):
        return error
    if not isinstance(error, SluiceError):
        return flight.FlightInternalError(scrub(f"unexpected {type(error).__name__}: {error}"))
    text = scrub(f"{error.message} [{error.code}] {error.hint}")
    if not isinstance(error, RetryableError):
        return flight.FlightServerError(text)
    return (
        flight.FlightTimedOutError(text) if error.code in _OVER_TIME else flight.FlightUnavailableError(text)
    )
