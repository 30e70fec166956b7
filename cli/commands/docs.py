"""``docs``: serve the documentation, write it as a site, or print one section of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from cli import output

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "mkdocs.yml"  # in a clone, not in a wheel
DEFAULT_PORT = 8000


@click.command("docs")
@click.argument("section", required=False)
@click.option(
    "--build",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write the site to. Nothing is served.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on.",
)
def command(section: str | None, build: Path | None, port: int) -> None:
    """Serve this documentation on 127.0.0.1 until Ctrl-C, or print one SECTION of it.

    SECTION is an error code, or the reference that an error or a check prints after `see`:
    `./sluice docs no-broker`, `./sluice docs docs/runbook.md#check-lag`.

    An installed wheel serves the same pages without search; only a clone can build the site.
    """
    from servers.docs_page import section_text

    if section is not None:
        text = section_text(section)
        if text is None:
            raise click.UsageError(f"No section '{section}' in the documentation.")
        output.say(text)
        return
    can_build = SITE.exists() and importlib.util.find_spec("mkdocs") is not None
    if build is not None and not can_build:
        raise click.UsageError("Only a clone of Sluice can build the site.")
    if build is not None:
        _build(build)
        output.say(f"site written to {build}")
        return
    with ExitStack() as stack:
        site = None
        if can_build:
            site = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-docs-")))
            _build(site)
        _serve(site, port)


def _build(folder: Path) -> None:
    """Build the site; every warning is an error."""
    typed: list[str | Path] = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        SITE,
        "--site-dir",
        folder.absolute(),
    ]
    done = subprocess.run(
        typed, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"The site could not be built.\n{done.stdout}{done.stderr}".rstrip())


def _serve(site: Path | None, port: int) -> None:
    from servers.docs_page import docs_app
    from servers.serving import serve
    from spark_jobs.config.listener import Address, ListenerSettings

    def say(url: str) -> None:
        output.say(f"documentation at {url}" if url else "stopped")

    serve(docs_app(site), ListenerSettings(), Address("127.0.0.1", port), say, insecure=False)
