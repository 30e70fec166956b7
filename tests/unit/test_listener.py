"""Where a listener may listen, for whom, and what is said of it."""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import dagster_webserver.app
import dagster_webserver.cli
import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from cli.stand import running
from servers import beside, gateway, listener
from servers.beside import SERVE, Beside
from servers.listener import bound_at, guard_of, refuse_open, refuse_taken, tls_of, url_of
from servers.process import free_ports
from servers.serving import HeadsInTime, guarded
from spark_jobs.config.build import ConfigReading, build_config
from spark_jobs.config.file import read_config
from spark_jobs.config.gateway import GatewaySettings
from spark_jobs.config.listener import (
    Address,
    CatalogServerSettings,
    ListenerSettings,
    MetricsSettings,
    ServeSettings,
    TlsSettings,
    UiSettings,
)
from spark_jobs.config.problems import Document
from spark_jobs.config.settings import CatalogSettings, SluiceConfig
from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import ConfigError
from tests.support.certificates import make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers.process import ServerProcess
    from spark_jobs.connections.connect import Connections

TOKEN = "hunter2-Tr0ub4dor-and-3"


def build(**sections: object) -> ConfigReading:
    """Read a configuration file of these sections."""
    return build_config(Document("sluice.yaml", {"version": "1", **sections}), (), home="/h", folder="/f")


@pytest.mark.parametrize(
    ("written", "address", "is_loopback", "url"),
    [
        ("127.0.0.1:3000", Address("127.0.0.1", 3000), True, "http://127.0.0.1:3000"),
        ("[::1]:3000", Address("::1", 3000), True, "http://[::1]:3000"),
        ("localhost:1", Address("localhost", 1), True, "http://localhost:1"),
        ("[::]:3000", Address("::", 3000), False, "http://[::1]:3000"),
        ("0.0.0.0:80", Address("0.0.0.0", 80), False, "http://127.0.0.1:80"),  # noqa: S104
        ("sluice.internal:0", Address("sluice.internal", 0), False, "http://sluice.internal:0"),
    ],
)
def test_an_address_is_a_host_and_a_port(
    written: str, address: Address, url: str, *, is_loopback: bool
) -> None:
    """IPv6 in brackets, here as in addresses; who listens everywhere is asked at loopback from here."""
    settings = UiSettings.model_validate({"listen": written})
    assert settings.listen == address
    assert str(address) == written
    assert address.is_loopback == is_loopback
    assert url_of(settings, address) == url
    assert url_of(UiSettings(tls=TlsSettings(cert="/c")), address) == url.replace("http", "https")


@pytest.mark.parametrize(
    "written", ["3000", "::1:3000", "127.0.0.1", "http://a:1", "a:1/b", "a:99999", "me@a:1", "off"]
)
def test_what_is_no_address_is_refused(written: str) -> None:
    """Its line says how one is written; only metrics can be off."""
    (problem,) = build(ui={"listen": written}).problems
    assert (problem.key, "[::1]:3000" in problem.hint) == ("ui.listen", True)


def test_both_listeners_are_written_alike() -> None:
    """Tokens are in nothing that is shown; metrics may be off."""
    section = {
        "hosts": "sluice.example.com",
        "origins": ["https://Tools.example.com/"],
        "tokens": [TOKEN],
        "tls": {"cert": "/etc/sluice.pem", "key": "/etc/sluice.key"},
    }
    config = build(ui={"listen": "[::]:3000", **section}, metrics={"listen": "off", **section}).config
    assert config is not None
    assert (
        config.ui.tls
        == config.metrics.tls
        == TlsSettings(cert="/etc/sluice.pem", private_key="/etc/sluice.key")
    )
    assert config.metrics.listen is None
    assert guard_of(config.ui) == {
        "hosts": ["::", "sluice.example.com"],
        "origins": ("https://tools.example.com",),
        "tokens": [TOKEN],
    }
    assert TOKEN not in f"{config!r}{config}{config.model_dump()}{config.model_dump_json()}"
    assert build(ui={"origins": "tools.example.com"}).problems


def test_the_old_keys_of_metrics_are_named() -> None:
    """Another version's file is told what takes their place."""
    problems = build(metrics={"port": "9464", "host": "10.0.0.7"}).problems
    assert {each.key for each in problems} == {"metrics.port", "metrics.host"}
    assert all("listen: HOST:PORT" in each.hint for each in problems)


def test_what_listeners_have_alike_is_said_once() -> None:
    """A listener's own word takes its place, an empty one too; the gateway has all of its own."""
    config = build(
        listeners={"hosts": ["a", "b"], "origins": "https://c", "tls": {"cert": "/all.pem"}},
        metrics={"hosts": "d", "tls": {"cert": "/own.pem"}},
        serve={"origins": []},
        gateway={"hosts": "e"},
    ).config
    assert config is not None
    each = (config.ui, config.metrics, config.catalog_server, config.serve, config.gateway)
    assert [listener.hosts for listener in each] == [("a", "b"), ("d",), ("a", "b"), ("a", "b"), ("e",)]
    assert [len(listener.origins) for listener in each] == [1, 1, 1, 0, 0]
    certificates = [listener.tls and listener.tls.cert for listener in each]
    assert certificates == ["/all.pem", "/own.pem", "/all.pem", "/all.pem", None]


def test_others_are_let_in_with_a_token_or_on_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond this machine, for both listeners; a token is read when it starts and is no short one."""
    for settings in (UiSettings, MetricsSettings, CatalogServerSettings):
        refuse_open(settings(), insecure=False)
        beyond = settings.model_validate({"listen": "10.0.0.7:80"})
        refuse_open(beyond, insecure=True)
        assert refusal(beyond) == "listener-without-tokens"
        named = settings.model_validate({"listen": "10.0.0.7:80", "tokens": ["${SLUICE_TEST_TOKEN}"]})
        monkeypatch.delenv("SLUICE_TEST_TOKEN", raising=False)
        assert refusal(named) == "missing-secret"
        monkeypatch.setenv("SLUICE_TEST_TOKEN", "")
        assert refusal(named) == "token-too-short"
        monkeypatch.setenv("SLUICE_TEST_TOKEN", TOKEN)
        refuse_open(named, insecure=False)


def test_headers_that_do_not_end_are_given_up_by_all_that_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's are tested with its connections."""
    monkeypatch.setattr(HeadsInTime, "head_seconds", 0.2)
    kinds = (MetricsSettings, CatalogServerSettings, ServeSettings)
    with ExitStack() as serving:
        begun = [serving.enter_context(_begun(guarded(PlainTextResponse(""), kind()))) for kind in kinds]
        began = time.monotonic()
        assert [each.recv(1) for each in begun] == [b""] * len(kinds)
        assert time.monotonic() - began < 3


def test_headers_to_the_ui_have_to_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dagster serves it by uvicorn, which is told."""
    (tmp_path / "sluice.yaml").write_text("version: 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLUICE_CONFIG", raising=False)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(uvicorn, "run", lambda **how: told.append(how))
    monkeypatch.setattr(dagster_webserver.app, "DagsterWebserver", None)
    monkeypatch.setattr(dagster_webserver.cli, "main", lambda: uvicorn.run())  # noqa: PLW0108  (the one of then)
    monkeypatch.setattr(sys, "argv", ["webserver"])
    runpy.run_module("servers.webserver", run_name="__main__")
    assert told[0]["http"] is HeadsInTime


@contextmanager
def _begun(config: uvicorn.Config) -> Iterator[socket.socket]:
    """A request to a server whose headers do not end."""
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    with socket.create_connection(server.servers[0].sockets[0].getsockname(), 5) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX-A: 1\r\n")
        yield client
    server.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("ui", "listen: '10.0.0.7:3000'"),
        ("metrics", "listen: '0.0.0.0:9464'"),
        ("catalog_server", "listen: '[::]:8183'"),
        ("serve", "listen: 'sluice.example.com:8181'"),
        ("serve", "listen: off, flight: '10.0.0.7:8182'"),
        ("gateway", "listen: '10.0.0.7:8088'"),
    ],
)
def test_tokens_that_come_in_clear_are_told_by_name(
    section: str, text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``validate`` and at the start; with TLS, on this machine alone or on purpose they are not."""
    monkeypatch.setattr(listener, "_warn", listener._log.warning)  # once a process otherwise
    file, tls = tmp_path / "sluice.yaml", "tls: {cert: /c.pem}"

    def told(settings: str, *, insecure: bool = False) -> tuple[list[str], list[str]]:
        file.write_text(f"version: 1\n{section}: {{tokens: ['{TOKEN}'], {settings}}}\n")
        reading = read_config(file)
        assert reading.config is not None
        caplog.clear()
        listens = getattr(reading.config, section)
        refuse_open(listens, insecure=insecure)
        return [str(note) for note in reading.notes if "in clear" in str(note)], caplog.messages

    (note,), (warning,) = told(text)
    assert f"sluice.yaml:2 {section}.listen: tokens come to " in note
    assert warning.startswith(f"{section}: tokens come to ")
    assert "in clear. Write tls beside listen" in warning
    assert told(f"{text}, {tls}") == ([], [])
    assert told(text, insecure=True)[1] == []
    assert told("listen: '127.0.0.1:3000'") == ([], [])


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is not there, and one without its key."""
    certificates = make_certificates(tmp_path)
    for cert in (tmp_path / "none.pem", certificates.ca):
        with pytest.raises(ConfigError, match="tls-unreadable"):
            tls_of(UiSettings(tls=TlsSettings(cert=str(cert))))
    server = str(certificates.server)
    assert tls_of(UiSettings(tls=TlsSettings(cert=server)))["ssl_keyfile"] == server
    assert tls_of(UiSettings()) == {}


def test_a_gateway_that_cannot_listen_takes_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else who typed it by mistake would end the one that runs, and then itself."""
    monkeypatch.setattr(gateway, "Gateway", None)
    config = SluiceConfig(home="/h", state="/s", catalog=CatalogSettings(properties={}))
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigError, match="port-taken"):
        gateway.serve_gateway(
            config, cast("Connections", None), Address(*other.getsockname()), lambda _url: None
        )


def test_a_gateway_that_is_told_to_end_before_it_serves_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Kafka is away at its start: whoever stops it, a service's manager too, says so once."""
    closed = list[bool]()
    away = SimpleNamespace(start=lambda: None, is_ready=False, ended=None, close=lambda: closed.append(True))
    monkeypatch.setattr(gateway, "Gateway", lambda *_args, **_named: away)
    config = SluiceConfig(home="/h", state="/s", catalog=CatalogSettings(properties={}))
    address = Address("127.0.0.1", *free_ports(1))
    before = signal.getsignal(signal.SIGTERM)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    try:
        gateway.serve_gateway(config, cast("Connections", None), address, pytest.fail)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert closed


def refusal(settings: ListenerSettings) -> str:
    """The code of the error with which it is refused."""
    with pytest.raises(ConfigError) as caught:
        refuse_open(settings, insecure=False)
    return caught.value.code


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_second_sluice_takes_a_free_port_unless_it_was_told_which(
    host: str, family: socket.AddressFamily
) -> None:
    """The usual port being taken stops nothing; an address that was asked for is refused by name."""
    with socket.create_server((host, 0), family=family) as listening:
        taken = Address(host, listening.getsockname()[1])
        usual = MetricsSettings.model_construct(_fields_set=set(), listen=taken)
        other = beside._free(usual, taken)
        assert other.host == host
        assert other.port not in {0, taken.port}
        with pytest.raises(ConfigError, match="listens at") as refused:
            beside._free(MetricsSettings(listen=taken), taken)
        assert refused.value.code == "port-taken"
    assert beside._free(usual, taken) == taken
    refuse_taken(taken)


def test_answers_are_served_where_a_pipeline_is_hot_and_found_by_their_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever port they got; without such a pipeline nobody listens for queries."""
    process = cast("ServerProcess", None)
    started = lambda name, *_, **__: Beside({name: f"http://{name}"}, process)  # noqa: E731
    monkeypatch.setattr(running, "start_beside", started)
    for hot in ("true", "false"):
        pipeline = {"topic": "orders", "table": "lake.orders", "hot": hot}
        config = build(pipelines={"orders": pipeline}).config
        assert config is not None
        servers = running.Servers(config.model_copy(update={"home": str(tmp_path)}))
        assert (SERVE in servers.start_beside()) == (hot == "true")
        assert read_endpoints(str(tmp_path)).serve == ("http://serve" if hot == "true" else None)


@pytest.mark.parametrize(
    "settings",
    [MetricsSettings, CatalogServerSettings, ServeSettings, GatewaySettings],
    ids=lambda s: s.section,
)
def test_port_0_is_a_free_port_wherever_something_listens(
    settings: type[ListenerSettings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` starts the command with one and tells it; the command by itself takes one too."""
    typed: list[list[str]] = []
    monkeypatch.setattr(beside, "ServerProcess", lambda _folder, command, *_, **__: typed.append(command))
    started = beside.start_beside(
        settings.section,
        {settings.section: settings.model_validate({"listen": "127.0.0.1:0"})},
        *(tmp_path, None),
        insecure=False,
    )
    port = int(typed[0][typed[0].index("--port") + 1])
    assert (port > 0, started.urls) == (True, {settings.section: f"http://127.0.0.1:{port}"})
    assert bound_at(Address("127.0.0.1", 0)).port > 0
    assert bound_at(Address("127.0.0.1", 0), 9464) == Address("127.0.0.1", 9464)
