"""The guard in front of a listener: only what names it, reads, or comes from its own pages gets through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from prove.lab.registry_stand_in import basic
from servers.browser_guard import BrowserGuard

HERE = "127.0.0.1:3000"
JSON = ("content-type", "application/json")
OK = 200
TOKENS = ("hunter2-Tr0ub4dor", "correct-horse-battery")


def ask(
    method: str = "GET",
    *headers: tuple[str, str],
    host: str = HERE,
    arrived_at: str = "127.0.0.1",
    query: str = "",
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    tokens: tuple[str, ...] = (),
    kind: str = "http",
) -> int:
    """Send it through a guard and return the status, of a WebSocket's close 1008; 200 if it was handed on."""
    sent: list[dict[str, Any]] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": OK})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": kind,
        "method": method,
        "path": "/graphql",
        "query_string": query.encode(),
        "server": (arrived_at, 3000),
        "headers": [(name.encode(), value.encode()) for name, value in (("host", host), *headers) if value],
    }
    asyncio.run(BrowserGuard(application, hosts, origins, tokens)(scope, receive, send))
    first = sent[0]
    if first.get("status") == OK and first["type"] == "http.response.start":  # no page shows it within itself
        assert (b"x-frame-options", b"DENY") in first["headers"]
    return int(first.get("status") or first["code"])


@pytest.mark.parametrize("host", [HERE, "127.0.0.1", "localhost:3000", "LOCALHOST"])
def test_this_machine_is_asked_under_its_own_names(host: str) -> None:
    """Any port: one may be forwarded."""
    assert ask(host=host) == OK


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:3000", "127.0.0.1.evil.example", "10.0.0.7", "", "["]
)
def test_a_foreign_host_reads_nothing(host: str) -> None:
    """A name that was made to lead here (DNS rebinding), another address, none, nonsense."""
    assert ask(host=host) == 403


@pytest.mark.parametrize(
    ("host", "arrived_at"),
    [("10.0.0.7:3000", "10.0.0.7"), ("[::1]:3000", "::1"), ("10.0.0.7", "::ffff:10.0.0.7")],
)
def test_the_address_a_request_came_in_at_is_its_name(host: str, arrived_at: str) -> None:
    """Nobody can make another site's pages come from it."""
    assert ask(host=host, arrived_at=arrived_at) == OK


def test_localhost_is_a_name_on_loopback_only() -> None:
    """A page at localhost of the reader's machine is not one of a server's elsewhere."""
    assert ask(host="localhost", arrived_at="10.0.0.7") == 403


def test_a_name_that_was_given_is_gone_by() -> None:
    """A proxy's, in whatever case, with its port or without."""
    assert ask(host="sluice.example", hosts=("Sluice.example",)) == OK
    assert ask(host="sluice.example:8443", hosts=("Sluice.example:8443",)) == OK
    assert (
        ask(host="[fd00::1]:8443", hosts=("fd00::1",)) == ask(host="[fd00::1]", hosts=("[FD00::1]:1",)) == OK
    )


def test_two_hosts_are_none() -> None:
    """The application might read the other one."""
    assert ask("GET", ("host", "evil.example")) == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:8080", "http://127.0.0.1:8888", "http://[x"]
)
def test_a_page_of_another_origin_changes_nothing(origin: str) -> None:
    """Also one of another port of this machine, one whose origin the browser hides, and nonsense."""
    assert ask("POST", JSON, ("origin", origin)) == 403


@pytest.mark.parametrize("headers", [(), (("origin", f"http://{HERE}"),), (("origin", f"https://{HERE}"),)])
def test_its_own_pages_and_programs_may_ask(headers: tuple[tuple[str, str], ...]) -> None:
    """Programs send no Origin."""
    assert ask("POST", JSON, *headers) == OK


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/graphql",
        "text/plain; application/json",
        "",
    ],
)
def test_what_is_no_json_is_not_read(kind: str) -> None:
    """A form of any page can send these without asking."""
    assert ask("POST", ("content-type", kind)) == 415


def test_json_with_a_character_set_is_json() -> None:
    """As many clients send it."""
    assert ask("POST", ("content-type", "application/json; charset=utf-8")) == OK


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("query=query{version}", OK),
        ("query={version}", OK),
        ("query=mutation{stopSensor(id:1){x}}", 405),
        ("query=query+a{version}+mutation+b{stopSensor{x}}&operationName=b", 405),
        ("query={version}&query=mutation{stopSensor{x}}", 405),
        ("query=not+graphql", OK),
        ("", OK),
    ],
)
def test_a_get_carries_queries_only(query: str, status: int) -> None:
    """What cannot be parsed is not executed either: the application says so."""
    assert ask(query=query) == status


def test_a_page_of_another_origin_gets_no_websocket() -> None:
    """Browsers let every page open one; what is sent over it is asked nothing more."""
    assert ask("", ("origin", "http://evil.example"), kind="websocket") == 1008
    assert ask("", host="evil.example", kind="websocket") == 1008
    assert ask("", ("origin", f"http://{HERE}"), kind="websocket") == OK


def test_what_is_no_request_is_handed_on() -> None:
    """Start-up and shutdown of the application."""
    assert ask(kind="lifespan") == OK


def test_pages_of_an_origin_that_was_given_may_ask() -> None:
    """As where a proxy changes the Host; all others still may not."""
    tools = ("https://tools.example",)
    assert ask("POST", JSON, ("origin", "https://Tools.example"), origins=tools) == OK
    assert ask("", ("origin", "https://tools.example"), kind="websocket", origins=tools) == OK
    assert ask("POST", JSON, ("origin", "http://tools.example"), origins=tools) == 403


@pytest.mark.parametrize(
    ("written", "status"),
    [
        (f"Bearer {TOKENS[1]}", OK),
        (f"bearer  {TOKENS[0]} ", OK),
        (basic("anybody", TOKENS[0]), OK),
        (basic(TOKENS[0], ""), 401),
        (f"Bearer {TOKENS[0]}x", 401),
        ("Bearer", 401),
        ("Bearer \xff", 401),
        ("Basic ====", 401),
        ("Basic \xff", 401),
        ("", 401),
    ],
)
def test_each_request_brings_a_token_where_there_are_some(written: str, status: int) -> None:
    """As a bearer or as a password, to read as well, and for a WebSocket."""
    headers = (("authorization", written),)
    assert ask("GET", *headers, tokens=TOKENS) == ask("POST", JSON, *headers, tokens=TOKENS) == status
    assert ask("", *headers, kind="websocket", tokens=TOKENS) == (OK if status == OK else 1008)


def test_a_token_opens_nothing_to_pages_from_elsewhere() -> None:
    """A browser brings a password along whoever's page asks."""
    known = ("authorization", basic("me", TOKENS[0]))
    assert ask("POST", JSON, known, ("origin", "http://evil.example"), tokens=TOKENS) == 403
    assert ask("GET", known, host="evil.example", tokens=TOKENS) == 403
    assert ask("POST", known, ("content-type", "text/plain"), tokens=TOKENS) == 415
