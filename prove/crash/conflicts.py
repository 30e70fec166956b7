"""The errors of a run that lost against another one."""

from __future__ import annotations

# What a run that was replaced may say when it goes on; that it has landed is no error.
CONFLICTS = frozenset({None, "offsets-moved", "dead-letters-moved", "replay-overtaken", "taken-over"})
