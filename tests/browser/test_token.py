"""The UI behind tokens, as a browser without and with one sees it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import yaml

from bootstrap.places import ROOT
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Page

TOKEN = "a-token-of-sufficient-length"


def test_a_browser_is_let_in_with_a_token(page: Page, tmp_path: Path) -> None:
    """Without one the browser asks its user and shows nothing; with one Dagster's pages are shown."""
    config = {
        "version": 1,
        "kafka": {"bootstrap.servers": "127.0.0.1:9"},
        "ui": {"tokens": ["${UI_TOKEN}"]},
        "pipelines": {"orders": {"topic": "orders", "table": "lake.orders"}},
    }
    path = tmp_path / "sluice.yaml"
    path.write_text(yaml.safe_dump(config))
    (tmp_path / "empty.py").write_text("import dagster\n\ndefs = dagster.Definitions()\n")
    (home := tmp_path / "dagster").mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "servers.webserver", "-f", str(tmp_path / "empty.py"), "-p", str(port)]
    own = {"SLUICE_CONFIG": str(path), "UI_TOKEN": TOKEN, "DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT)}
    process = ServerProcess(ServerFolder(tmp_path, "webserver"), command, {**os.environ, **own})
    try:
        process.wait_until(lambda: is_listening(port), 120)
        refused = page.call("Page.navigate", url=f"http://127.0.0.1:{port}/")
        assert refused["errorText"] == "net::ERR_INVALID_AUTH_CREDENTIALS"  # nobody is there to be asked
        page.call("Page.navigate", url=f"http://me:{TOKEN}@127.0.0.1:{port}/")
        # Its address without the token: that of the first visit is remembered.
        page.open(f"http://127.0.0.1:{port}/deployment/locations")
        page.wait_for("empty.py")
    finally:
        process.stop()
