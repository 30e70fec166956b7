"""``bench``: handed over to the project's folder ``bench/``."""

from __future__ import annotations

from cli.commands.handed_over import hand_over

command = hand_over("bench")
