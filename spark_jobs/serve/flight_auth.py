"""Who may ask over Flight: those who bring a token, as bearer or as the password of any user."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyarrow import flight


class NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Lets a handshake through: what it wants is asked of each call's headers, and answered in them."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Say nothing."""

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002
        """Take it as it is."""
        return b""


class Headers(flight.ServerMiddleware):  # type: ignore[misc]
    """What a call said in its headers, by lower-case name; a token goes back as JDBC's driver expects it."""

    def __init__(self, said: Mapping[str, str], token: str | None) -> None:
        self.said = said
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        """Say what to bring from now on."""
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}


class TokenCheck(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Turns away every call without one of the tokens; without ``tokens`` none is asked for."""

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = tuple(tokens)

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str | bytes]]) -> Headers:  # noqa: ARG002
        """Return the call's headers. Raises ``FlightUnauthenticatedError``."""
        said = {name.lower(): _text(values[-1]) for name, values in headers.items() if values}
        token = _token_of(said.get("authorization", ""))
        is_known = any(hmac.compare_digest(token.encode(), each.encode()) for each in self._tokens)
        if self._tokens and not is_known:
            raise flight.FlightUnauthenticatedError("A token is wanted: as bearer, or as a password.")
        return Headers(said, token or None)


def _token_of(written: str) -> str:
    scheme, _, value = written.partition(" ")
    if scheme.lower() != "basic":
        return value.strip() if scheme.lower() == "bearer" else ""
    padding = "=" * (-len(value) % 4)  # which Go's client leaves out
    try:
        return base64.b64decode(value + padding, validate=True).partition(b":")[2].decode()
    except ValueError:
        return ""


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
