"""What an answer over Iceberg's REST protocol means: a table that is missing, a refusal, another server."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from requests import HTTPError, Response

from spark_jobs.lake.catalog import catalog_error, refused_commit
from spark_jobs.lake.rest_catalog import own_answer
from spark_jobs.protocol.errors import SluiceError

PAGE = "<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head>\n<body>nginx</body></html>"


def told(kind: str, message: str = "-") -> str:
    """Return an error in the protocol's form."""
    return json.dumps({"error": {"message": message, "type": kind, "code": 1}})


def load(status: int, body: str) -> Exception:
    """Return what loading a table ends with when this is answered."""
    response = Response()
    response.status_code, response.reason = status, "Reason"
    response._content = body.encode()
    response.headers["Content-Type"] = "text/html" if body.startswith("<") else "application/json"
    try:
        response = own_answer("GET", response)
        try:
            response.raise_for_status()
        except HTTPError as error:
            _handle_non_200_response(error, {404: NoSuchTableError, 409: CommitFailedException})
        TableResponse.model_validate_json(response.text)
    except Exception as error:  # noqa: BLE001  (it is what is looked at)
        return error
    raise AssertionError("it was taken for a table")


def ended(error: Exception) -> SluiceError:
    """Return what a run ends with."""
    return catalog_error(error, "could not load the table")


@pytest.mark.parametrize("kind", ["NoSuchTableException", "NoSuchNamespaceException", "TabularNotFound"])
def test_a_table_is_missing_by_the_catalogs_own_word(kind: str) -> None:
    """Reference server, Nessie and Polaris say so; only then may a run make the table."""
    assert isinstance(load(404, told(kind)), NoSuchTableError)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, PAGE, "request-refused"),
        (404, "", "request-refused"),
        (404, '{"status": 404, "error": "Not Found", "path": "/v1/x"}', "request-refused"),
        (
            404,
            told("NotFoundException", "Location does not exist: s3://lake/t.metadata.json"),
            "request-refused",
        ),
        (200, PAGE, "request-refused"),
        (200, '{"status": "up"}', "request-refused"),
        (400, told("BadRequestException"), "request-refused"),
        (406, PAGE, "request-refused"),
        (413, PAGE, "request-refused"),
        (414, "", "request-refused"),
        (422, told("Unprocessable"), "request-refused"),
        (501, told("Unsupported"), "request-refused"),
        (401, PAGE, "catalog-refused"),
        (403, PAGE, "catalog-refused"),
        (403, told("ForbiddenException"), "catalog-refused"),
        (200, '{"metadata-location": "s3://la', "catalog-away"),
        (408, PAGE, "catalog-away"),
        (409, PAGE, "catalog-away"),
        (419, told("AuthenticationTimeoutException"), "catalog-away"),
        (429, PAGE, "catalog-away"),
        (502, PAGE, "catalog-away"),
        (503, "", "catalog-away"),
    ],
)
def test_what_is_answered_alike_each_time_is_no_outage(status: int, body: str, code: str) -> None:
    """A refusal, a page and another server have a name; what passes by itself is worth another run."""
    error = ended(load(status, body))
    assert (error.code, error.is_retryable) == (code, code == "catalog-away")
    assert "\n" not in error.message
    assert "pydantic" not in error.message
    assert body != PAGE or "403 Forbidden nginx" in error.message


@pytest.mark.parametrize("status", [403, 406, 413, 414, 422])
def test_a_refused_commit_has_a_name(status: int) -> None:
    """When the table does not show the commit, its refusal is what a person has to know."""
    error = load(status, told("No"))
    assert refused_commit(error, table="t").where == {"table": "t"}


@pytest.mark.parametrize("status", [401, 409, 419, 429, 500, 502, 503, 504])
def test_what_may_have_landed_or_passes_is_no_refusal(status: int) -> None:
    """A login that ended, a limit in time, a server's own fault: the outcome stays unknown."""
    assert refused_commit(load(status, told("No")), table="t") is None


def test_a_login_is_answered_in_words_of_its_own() -> None:
    """OAuth's errors have another form than the catalog's."""
    response = Response()
    response.status_code, response._content = 400, b'{"error": "invalid_client"}'
    assert own_answer("POST", response).json() == {"error": "invalid_client"}


def test_who_only_asks_whether_it_is_there_gets_no_body() -> None:
    """A 404 to HEAD says all that it can."""
    response = Response()
    response.status_code, response._content = 404, b""
    assert own_answer("HEAD", response) is response
