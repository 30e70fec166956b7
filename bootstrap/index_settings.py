"""The user's package index, proxy and certificates, translated for the tools that set-up starts.

pip's own settings count, wherever the user keeps them: one place to name a mirror is enough.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}


def parse_pip_settings(listing: str) -> dict[str, str]:
    """Read ``pip config list``: environment over file, ``install.`` over ``global.``."""
    settings: dict[str, tuple[int, str]] = {}
    ranks = {"global": 0, "install": 1, ":env:": 2}
    for line in listing.splitlines():
        name, separator, quoted = line.partition("=")
        section, _, key = name.rpartition(".")
        if separator and key in UV_NAMES and section in ranks:
            value = " ".join(str(ast.literal_eval(quoted)).split())
            if key not in settings or ranks[section] > settings[key][0]:
                settings[key] = (ranks[section], value)
    return {key: value for key, (_, value) in settings.items()}


def uv_variables(pip_settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables that give uv the same index, proxy and certificates; the user's own uv ones win."""
    wanted = {UV_NAMES[key]: value for key, value in pip_settings.items()}
    certificates = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if certificates:
        wanted.setdefault("SSL_CERT_FILE", certificates)
    if "UV_INDEX" in wanted:
        # pip looks into all indexes; hashes make that safe.
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in wanted.items() if not environment.get(name)}
