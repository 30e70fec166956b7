"""``prove``: handed over to the project's folder ``prove/``."""

from __future__ import annotations

from cli.commands.handed_over import hand_over

command = hand_over("prove")
