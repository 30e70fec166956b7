"""``catalog``: serve the catalog over Iceberg's REST protocol, read-only."""

from __future__ import annotations

import click

from cli import output
from cli.work import listener_options
from spark_jobs.config.file import load_config
from spark_jobs.config.listener import DEFAULT_CATALOG
from spark_jobs.protocol.errors import needs


@click.command("catalog")
@listener_options("catalog_server", "read it")
def command(port: int | None, *, insecure: bool) -> None:
    """Serve the catalog to other engines over Iceberg's REST protocol until Ctrl-C. Reads only.

    Requests that would change a table are refused. Clients receive file locations but no credentials; they
    need their own for the storage. `./sluice up` serves the catalog too if catalog_server.listen is set, or
    with --catalog-port.
    """
    with needs("serve"):
        from servers.catalog import CatalogApp, refused
        from servers.listener import bound_at
        from servers.serving import serve

    config = load_config()
    serve(
        CatalogApp(config),
        config.catalog_server,
        bound_at(config.catalog_server.listen or DEFAULT_CATALOG, port),
        lambda url: output.say(f"catalog at {url}" if url else "stopped"),
        insecure=insecure,
        guard={"refused": refused},
    )
