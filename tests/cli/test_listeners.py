"""What listens, as the real processes do it: on IPv6, with TLS, for whoever brings a token."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from prove.lab.registry_stand_in import basic
from servers.process import free_ports, is_listening
from tests.support.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TOKEN = "hunter2-Tr0ub4dor-and-3"
START_SECONDS = 120.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority's, and a server's on loopback."""
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


@pytest.fixture(scope="module")
def listening(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[dict[str, str]]:
    """The addresses of `./sluice metrics`, `./sluice catalog` and Dagster's webserver, by path."""
    folder = tmp_path_factory.mktemp("listeners")
    ports = dict(zip(("metrics", "ui", "catalog_server"), free_ports(3), strict=True))
    shared = {"hosts": "sluice.example", "tokens": ["${A_TOKEN}"], "tls": {"cert": str(certificates.server)}}
    sections = {name: {"listen": f"[::1]:{port}", **shared} for name, port in ports.items()}
    document = {"version": 1, "kafka": {"bootstrap.servers": "127.0.0.1:1"}, **sections}
    (folder / "sluice.yaml").write_text(yaml.safe_dump(document))
    (folder / "dagster").mkdir()
    environment = {
        **os.environ,
        "A_TOKEN": TOKEN,
        "SLUICE_CONFIG": str(folder / "sluice.yaml"),
        "SLUICE_HOME": str(folder / "home"),
        "DAGSTER_HOME": str(folder / "dagster"),
    }
    webserver = ("servers.webserver", "--empty-workspace", "-h", "::1", "-p", str(ports["ui"]))
    with ExitStack() as stack, (folder / "out").open("w") as out:
        for module in (("cli", "metrics"), ("cli", "catalog"), webserver):
            command = [sys.executable, "-m", *module]
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        deadline = time.monotonic() + START_SECONDS
        while not all(is_listening(port, "::1") for port in ports.values()):
            assert time.monotonic() < deadline, (folder / "out").read_text()
            time.sleep(0.1)
        yield {
            "metrics": f"https://[::1]:{ports['metrics']}/metrics",
            "ui": f"https://[::1]:{ports['ui']}/server_info",
            "catalog": f"https://[::1]:{ports['catalog_server']}/v1/config",
        }


@pytest.mark.parametrize("listener", ["metrics", "ui", "catalog"])
def test_each_listener_asks_for_a_token_over_tls(
    listening: dict[str, str], certificates: Certificates, listener: str
) -> None:
    """By its own address and a name that was given, and by no other; the token is on no command line."""
    url, known = listening[listener], {"Authorization": f"Bearer {TOKEN}"}
    context = ssl.create_default_context(cafile=certificates.ca)
    context.check_hostname = False  # it is made out to 127.0.0.1

    def ask(headers: dict[str, str]) -> int:
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (our own)
        try:
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:  # noqa: S310
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code if "WWW-Authenticate" in error.headers or error.code != 401 else 0

    assert ask(known) == ask(known | {"Host": "sluice.example:8443"}) == 200
    assert ask({"Authorization": basic("anybody", TOKEN)}) == 200
    assert ask({}) == ask({"Authorization": "Bearer hunter2"}) == 401
    assert ask(known | {"Host": "evil.example"}) == 403
    with pytest.raises(OSError, match=r"reset|closed|EOF|Empty"):
        urllib.request.urlopen(url.replace("https", "http"), timeout=60)  # noqa: S310
    shown = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True)
    assert TOKEN not in shown.stdout
