"""Storage locations compared as text: ``file:/x``, ``file:///x`` and ``/x`` are one place. Pure."""

from __future__ import annotations

import posixpath
import re

_LOCAL = re.compile(r"^file:/{1,3}(?=[^/]|$)")
_S3_ALIASES = re.compile(r"^s3[an]://")


def comparable(location: str) -> str:
    """One spelling for one place: local files as paths, ``s3a`` as ``s3``, no dots, no slash at the end."""
    local = _LOCAL.sub("/", location)
    scheme, separator, path = _S3_ALIASES.sub("s3://", local).rpartition("://")
    return scheme + separator + posixpath.normpath(path or "/").rstrip("/")


def is_inside(location: str, folder: str) -> bool:
    """Whether the location is the folder or below it; never when the folder is unknown (``${…}``, a name)."""
    if not folder or "${" in folder or ("/" not in folder):
        return False
    inner, outer = comparable(location), comparable(folder)
    return inner == outer or inner.startswith(f"{outer}/")


def is_local(location: str) -> bool:
    """Whether the location is on this machine's own disk."""
    return comparable(location).startswith("/")
