"""Comparison of storage locations as text, in one spelling for each place. Pure.

Iceberg-Java writes ``file:/x`` where PyIceberg writes ``file:///x``, and ``s3a://`` where it writes ``s3://``.
Who asks whether a file is named compares like this, so that a spelling never makes a file look unnamed.
"""

from __future__ import annotations

import posixpath
import re

_LOCAL = re.compile(r"^file:/{1,3}(?=[^/]|$)")
_S3_ALIASES = re.compile(r"^s3[an]://")


def normalise_path(location: str) -> str:
    """Return the normal spelling of a location: local path, ``s3`` for ``s3a``, no dots or trailing slash."""
    local = _LOCAL.sub("/", location)
    scheme, separator, path = _S3_ALIASES.sub("s3://", local).rpartition("://")
    return scheme + separator + posixpath.normpath(path or "/").rstrip("/")


def is_inside(location: str, folder: str) -> bool:
    """True if the location is the folder or below it; False if the folder is unknown (``${…}``, a name)."""
    if not folder or "${" in folder or ("/" not in folder):
        return False
    inner, outer = normalise_path(location), normalise_path(folder)
    return inner == outer or inner.startswith(f"{outer}/")


def is_local(location: str) -> bool:
    """True if the location is on this machine's disk."""
    return normalise_path(location).startswith("/")
