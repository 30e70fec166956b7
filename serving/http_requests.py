"""What comes by HTTP as a question, and an error as what goes back."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serving.service import Question
from spark_jobs.config.secrets import scrub
from spark_jobs.hot.watermark import parse_watermark
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError, error_to_json, fault

MOST_BODY_BYTES = 1_000_000
_STATUS_BY_CODE = {
    "not-served": HTTPStatus.NOT_FOUND,
    "no-table-yet": HTTPStatus.NOT_FOUND,
    "too-many-queries": HTTPStatus.TOO_MANY_REQUESTS,
    "query-timeout": HTTPStatus.GATEWAY_TIMEOUT,
    "not-yet": HTTPStatus.GATEWAY_TIMEOUT,
}
_Partition = Annotated[int, Field(ge=0, lt=1 << 31)]
_Whole = Annotated[int, Field(ge=0, lt=1 << 63)]


class Format(StrEnum):
    """What an answer is written in."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class QueryRequest(_Request):
    """The body of ``POST /v1/query``."""

    sql: str
    pipeline: str | None = None
    format: Format = Format.JSON
    after: dict[_Partition, _Whole] = Field(default_factory=dict)
    at: str | None = None
    timeout_ms: Annotated[_Whole, Field(gt=0)] | None = None

    def question(self) -> Question:
        """Return it without its protocol. Raises ``ConfigError``: ``unreadable-watermark``."""
        seconds = None if self.timeout_ms is None else self.timeout_ms / 1000
        at = None if self.at is None else parse_watermark(self.at)
        if at is not None and self.after:
            raise fault("unreadable-request", why="after and at are two points in time: choose one")
        return Question(self.sql, self.after, at, seconds)


class LookupRequest(_Request):
    """The parameters of ``GET /v1/pipelines/{pipeline}/lookup``."""

    key: str
    format: Format = Format.JSON


def read_query(body: bytes) -> QueryRequest:
    """Read a body. Raises ``ConfigError``: ``unreadable-request``."""
    try:
        return QueryRequest.model_validate_json(body)
    except ValidationError as error:
        raise fault("unreadable-request", why=_told(error)) from None


def read_lookup(parameters: dict[str, str]) -> LookupRequest:
    """Read an address's parameters. Raises ``ConfigError``: ``unreadable-request``."""
    try:
        return LookupRequest.model_validate(parameters)
    except ValidationError as error:
        raise fault("unreadable-request", why=_told(error)) from None


def status_of(error: SluiceError) -> HTTPStatus:
    """Return the error's status: whose matter it is, and whether asking again helps."""
    if error.code in _STATUS_BY_CODE:
        return _STATUS_BY_CODE[error.code]
    if isinstance(error, ConfigError):
        return HTTPStatus.BAD_REQUEST
    return HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, RetryableError) else HTTPStatus.CONFLICT


def error_body(error: SluiceError) -> dict[str, Any]:
    """Return the error as JSON, its texts without secrets."""
    told = error_to_json(error)
    return {
        **told,
        "message": scrub(error.message),
        "hint": scrub(error.hint),
        "see": f"docs/ERRORS.md#{error.code}",
    }


def _told(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors())
