"""Which answers are an Iceberg catalog's own, and which are those of a gateway or of another server."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from pyiceberg.exceptions import RESTError
from requests import HTTPError

if TYPE_CHECKING:
    from requests import Response

_MISSING = re.compile(r"NoSuch\w*(Table|Namespace)|(Table|Tabular|Namespace|Entity)\w*NotFound")
_OAUTH = re.compile(r"[a-z_]+")  # its errors are a word
_SHOWN_CHARACTERS = 100


def own_answer(method: str, response: Response) -> Response:
    """Return the answer as PyIceberg can read it, which takes every 404 for a table that is missing.

    Raises ``RESTError`` for a page in an answer's place, and for a 404 of all but a table or a namespace.
    """
    is_missing = response.status_code == HTTPStatus.NOT_FOUND
    if method.upper() == "HEAD" or (response.ok and not response.content.lstrip().startswith(b"<")):
        return response
    error = _error_of(response)
    if isinstance(error, dict):
        if is_missing and not _MISSING.search(str(error.get("type"))):
            raise RESTError(f"{error.get('type')}: {error.get('message')}") from HTTPError(response=response)
        return response
    kind = response.headers.get("Content-Type", "").partition(";")[0]
    words = " ".join(re.sub(r"<[^>]*>", " ", response.text[:2000]).split())[:_SHOWN_CHARACTERS]
    said = f"no answer of a catalog's: {response.status_code} {response.reason} {kind} {words}".rstrip()
    if response.ok or is_missing:
        raise RESTError(said) from HTTPError(response=response)
    if not _OAUTH.fullmatch(str(error)) or error is None:
        told = {"type": "not the catalog", "message": said, "code": response.status_code}
        response._content = json.dumps({"error": told}).encode()  # noqa: SLF001  (there is no public way)
    return response


def _error_of(response: Response) -> object:
    try:
        told = response.json()
    except ValueError:
        return None
    return told.get("error") if isinstance(told, dict) else None
