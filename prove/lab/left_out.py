"""Scenarios that this machine cannot run."""

from __future__ import annotations


class LeftOut(Exception):
    """The scenario cannot run on this machine; the text is the reason."""
