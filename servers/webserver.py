"""Dagster's webserver behind the guard, with the settings of ``ui``.

Other machines need tokens, or the option ``--insecure``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import uvicorn
from dagster_webserver import app
from dagster_webserver.cli import main
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware

from servers.browser_guard import BrowserGuard
from servers.docs_page import PAGES
from servers.listener import INSECURE, guard_of, refuse_open, tls_of
from servers.private_dagster import launcher_option
from servers.serving import HeadsInTime
from spark_jobs.config.file import load_written
from spark_jobs.config.listener import Address


def guarded(guard: dict[str, Any]) -> type[DagsterWebserver[Any, Any]]:
    """Return Dagster's webserver with documentation pages, behind the guard."""

    class GuardedWebserver(DagsterWebserver[Any, Any]):
        def build_middleware(self) -> list[Middleware]:
            return [Middleware(BrowserGuard, **guard), *super().build_middleware()]

        def build_routes(self) -> list[Any]:
            return [PAGES, *super().build_routes()]  # type: ignore[no-untyped-call]

    return GuardedWebserver


def _host(arguments: Sequence[str]) -> str:
    """Return the value of Dagster's host option; its default is this machine only."""
    asked = (value for option, value in pairwise(arguments) if option in {"-h", "--host"})
    return next(asked, "127.0.0.1")


if __name__ == "__main__":
    ui = load_written().ui
    given = Address(_host(sys.argv), ui.listen.port)
    refuse_open(ui.model_copy(update={"listen": given}), insecure=INSECURE in sys.argv)
    sys.argv = [each for each in sys.argv if each != INSECURE]
    app.DagsterWebserver = guarded(guard_of(ui))  # type: ignore[attr-defined]
    sys.argv += launcher_option()  # it ends runs by the launcher that started them
    # Dagster has no options for these.
    uvicorn.run = partial(uvicorn.run, **tls_of(ui), http=HeadsInTime)
    main()  # type: ignore[no-untyped-call]
