"""Dagster's webserver and its options, behind the guard, as the configuration has it under ``ui``."""

from __future__ import annotations

from functools import partial
from typing import Any

import uvicorn
from dagster_webserver import app
from dagster_webserver.cli import main
from dagster_webserver.webserver import DagsterWebserver
from starlette.middleware import Middleware

from servers.browser_guard import BrowserGuard
from servers.listener import guard_of, tls_of
from spark_jobs.config.file import load_config


def guarded(guard: dict[str, Any]) -> type[DagsterWebserver[Any, Any]]:
    """Return Dagster's webserver with the guard in front of all its routes."""

    class GuardedWebserver(DagsterWebserver[Any, Any]):
        def build_middleware(self) -> list[Middleware]:
            return [Middleware(BrowserGuard, **guard), *super().build_middleware()]

    return GuardedWebserver


if __name__ == "__main__":
    ui = load_config().ui
    app.DagsterWebserver = guarded(guard_of(ui))  # type: ignore[attr-defined]
    uvicorn.run = partial(uvicorn.run, **tls_of(ui))  # Dagster has no option for it
    main()  # type: ignore[no-untyped-call]
