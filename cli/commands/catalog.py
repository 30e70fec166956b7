"""``catalog``: serves the catalog over Iceberg's REST protocol, read-only, until it is stopped."""

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
    """Serve the configured catalog to other engines over Iceberg's REST protocol until Ctrl-C; reads only.

    Whatever would change a table is refused. Clients are given where the files lie and no credentials: they
    bring their own for the storage. `./sluice up` does this by itself where catalog_server.listen is written,
    or with --catalog-port.
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
