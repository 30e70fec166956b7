"""Dagster's daemon with our run launcher."""

from __future__ import annotations

import sys

from dagster._daemon.cli import main

from servers.light_process import read_migrations_once
from servers.private_dagster import launcher_option

if __name__ == "__main__":
    read_migrations_once()
    sys.argv += launcher_option()
    main()
