"""The page at ``/``: one file, which runs no script but its own and asks nobody but this server."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from starlette.responses import HTMLResponse, Response

_FILE = Path(__file__).with_name("page.html")
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def page() -> Response:
    """Return it, with a policy that names its parts by their hashes."""
    text, policy = _read()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


@cache
def _read() -> tuple[str, str]:
    text = _FILE.read_text(encoding="utf-8")
    allowed = " ".join(f"{kind}-src {_hash(inline)};" for kind, inline in _INLINE.findall(text))
    rest = "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return text, f"default-src 'none'; {allowed} {rest}"


def _hash(inline: str) -> str:
    digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
    return f"'sha256-{digest}'"
