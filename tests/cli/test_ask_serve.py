"""What commands do with a `serve` that is there, is not, is another's, or breaks off."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from cli.commands import answers
from servers.asking import ask_serve, followed, lake_id
from servers.process import free_ports
from serving.service import QueryService
from spark_jobs.config.listener import Address, ServeSettings
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.protocol.errors import ConfigError, RetryableError
from tests.support.asked import Drained, answering
from tests.support.certificates import Certificates, make_certificates
from tests.support.lake import Lake
from tests.support.recovery_scene import make_scene

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "hunter2-Tr0ub4dor-and-3"


def _config(folder: Path, port: int, **serve: object) -> SluiceConfig:
    return SluiceConfig(
        home=str(folder / "home"),
        state=str(folder / "log"),
        catalog=CatalogSettings(name="lake", properties={"uri": "http://catalog"}),
        serve=ServeSettings.model_validate({"listen": Address("127.0.0.1", port), **serve}),
    )


def _ask(config: SluiceConfig, sql: str) -> int | None:
    """How many rows it answers; None where the command has to read them itself."""
    body = {"pipeline": "flights", "sql": sql, "format": "arrow"}
    answered = ask_serve(config, "POST", "/v1/query", body)
    return answered and sum(batch.num_rows for batch in answers._streamed(answered).batches)


def test_only_ones_own_serve_is_asked_and_only_a_whole_answer_is_one(
    sqlite_catalog_properties: dict[str, str], tmp_path: Path
) -> None:
    """Where nobody or another's listens the command reads itself; all else is an error by name."""
    scene = make_scene(Lake("sqlite", sqlite_catalog_properties, "lake"), str(tmp_path / "state"))
    scene.lake.drain(0, 30)
    pipeline = scene.pipeline.model_copy(update={"name": "flights"})
    tails = Drained({"flights": pipeline}, scene.connections)
    service = QueryService([pipeline], scene.connections, tails, ServeSettings(query_timeout_seconds=1))
    config = _config(tmp_path, free_ports(1)[0])
    assert (_ask(config, "FROM t"), followed(config)) == (None, None)
    with answering(service, lake_id(config), tokens=[TOKEN]) as client:
        port = client.base_url.port
        assert port is not None
        config = _config(tmp_path, port, tokens=[TOKEN])
        assert _ask(config, "FROM t") == 30
        assert [each["state"] for each in followed(config) or ()] == ["live"]
        elsewhere = config.model_copy(update={"catalog": CatalogSettings(name="another", properties={})})
        assert (_ask(elsewhere, "FROM t"), followed(elsewhere)) == (None, None)
        with pytest.raises(ConfigError) as refused:
            _ask(config, "SELECT nme FROM t")
        assert refused.value.code == "query-refused"
        tls = {"cert": str(make_certificates(tmp_path / "certificates").server)}
        for wrong, sql in (
            (config, "FROM range(10000000000)"),
            (_config(tmp_path, port), "FROM t"),
            (_config(tmp_path, port, tokens=[TOKEN], tls=tls), "FROM t"),
        ):
            with pytest.raises(RetryableError) as away:
                _ask(wrong, sql)
            assert away.value.code == "serve-away"


def test_over_tls_a_token_is_told_to_nobody_but_who_shows_the_configured_certificate(tmp_path: Path) -> None:
    """Its fingerprint says so: neither another certificate for the same address nor a proxy will do."""
    ours, others = (make_certificates(tmp_path / name) for name in ("ours", "others"))
    told: list[str | None] = []

    class Serve(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"pipelines": []}')

    with HTTPServer(("127.0.0.1", 0), Serve) as server:
        server.socket = ours.server_context().wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def ask(certificates: Certificates) -> object:
            tls = {"cert": str(certificates.server)}
            return followed(_config(tmp_path, server.server_port, tokens=[TOKEN], tls=tls))

        with pytest.raises(RetryableError, match=r"(?i)fingerprint"):
            ask(others)
        assert (ask(ours), told) == ([], [f"Bearer {TOKEN}"])
        server.shutdown()
