"""``${ENV}`` and ``${file:/path}`` inside property values. Pure: the two readers are handed in."""

from __future__ import annotations

import re
from collections.abc import Callable

REFERENCE = re.compile(r"\$\{([^}]*)\}")
_FILE = "file:"
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def malformed_reference(value: str) -> str | None:
    """Return what is wrong with a reference in the value, None when all are well-formed; never quotes it."""
    if "${" in REFERENCE.sub("", value):
        return "a ${ has no closing brace"
    for reference in REFERENCE.findall(value):
        if reference.startswith(_FILE):
            if not reference[len(_FILE) :].startswith("/"):
                return "${file:…} needs an absolute path"
        elif not _ENVIRONMENT_NAME.fullmatch(reference):
            return "a ${…} holds no name of an environment variable"
    return None


def substitute(value: str, environment: Callable[[str], str], file: Callable[[str], str]) -> str:
    """Replace every reference by what the readers return for its name or path."""

    def read(match: re.Match[str]) -> str:
        name = match[1]
        return file(name[len(_FILE) :]) if name.startswith(_FILE) else environment(name)

    return REFERENCE.sub(read, value)
