"""Dagster's webserver and its options, behind the guard; ``--allow-host NAME`` names a Host it goes by."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dagster_webserver import app
from dagster_webserver.cli import main
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware

from servers.browser_guard import BrowserGuard


def guarded(hosts: list[str]) -> type[DagsterWebserver[Any, Any]]:
    """Return Dagster's webserver with the guard in front of all its routes."""

    class GuardedWebserver(DagsterWebserver[Any, Any]):
        def build_middleware(self) -> list[Middleware]:
            return [Middleware(BrowserGuard, hosts=hosts), *super().build_middleware()]

    return GuardedWebserver


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--allow-host", action="append", default=[])
    ours, sys.argv[1:] = parser.parse_known_args()
    app.DagsterWebserver = guarded(ours.allow_host)  # type: ignore[attr-defined]
    main()  # type: ignore[no-untyped-call]
