"""``catalog``: serve the catalog over Iceberg's REST protocol, read-only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import listener_options
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_CATALOG
from spark_jobs.protocol.errors import needs

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from spark_jobs.config.listener import Address
    from spark_jobs.config.settings import SluiceConfig


@click.command("catalog")
@listener_options("catalog_server", "read it")
def command(port: int | None, *, insecure: bool) -> None:
    """Serve the catalog to other engines over Iceberg's REST protocol until Ctrl-C. Reads only.

    Requests that would change a table are refused. Clients receive file locations but no credentials; they
    need their own for the storage. `./sluice up` serves the catalog too if catalog_server.listen is set, or
    with --catalog-port.
    """
    config = load_config()
    with needs("serve"):
        from servers.serving import serve

        app, guard = _catalog(config)
    serve(
        app,
        config.catalog_server,
        _address(config, port),
        lambda url: output.say(f"catalog at {url}" if url else "stopped"),
        insecure=insecure,
        guard=guard,
    )


def serve_catalog(config: SluiceConfig, port: int, *, insecure: bool) -> AbstractContextManager[Thread]:
    """Serve it in a thread within the block."""
    with needs("serve"):
        from servers.serving import served

        app, guard = _catalog(config)
    return served(app, config.catalog_server, _address(config, port), insecure=insecure, guard=guard)


def _catalog(config: SluiceConfig) -> tuple[ASGIApp, dict[str, Any]]:
    from servers.catalog import CatalogApp, refused

    return CatalogApp(config), {"refused": refused}


def _address(config: SluiceConfig, port: int | None) -> Address:
    from servers.listener import bound_at

    return bound_at(config.catalog_server.listen or DEFAULT_CATALOG, port)
