"""Why a scenario cannot be had on this machine."""

from __future__ import annotations


class LeftOut(Exception):
    """The case cannot be made on this machine; the text says why."""
