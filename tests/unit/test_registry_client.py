"""What is asked of a registry, what is believed of its answers, and who is told the credentials."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.http_proxy import Response
from prove.lab.registry_stand_in import RegistryStandIn, basic
from spark_jobs.config.registry_settings import RegistryAuth, RegistrySettings
from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.registry import http_get
from spark_jobs.registry import references as following
from spark_jobs.registry.client import RegistryClient
from spark_jobs.registry.http_get import access_of
from spark_jobs.schema.writer_schema import Language, SchemaText
from tests.support.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "hunter2-Tr0ub4dor"
TYPE = (("Content-Type", "application/json"),)
LONG = '"long"'


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(http_get, "PAUSES_SECONDS", (0.0, 0.0))


@pytest.fixture
def stand_in() -> Iterator[RegistryStandIn]:
    """A registry behind a prefix, which is empty."""
    with RegistryStandIn(base="/apis/ccompat/v7") as registry:
        yield registry


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority's, a server's and a client's."""
    return make_certificates(tmp_path_factory.mktemp("tls") / "certificates")


def to(url: str, timeout_seconds: float = 5.0, **settings: Any) -> RegistryClient:
    """Return a client as the configuration would make it."""
    settings["auth"] = RegistryAuth(**settings.pop("auth", {}))
    access = access_of("main", RegistrySettings(url=url, **settings))
    return RegistryClient(replace(access, timeout_seconds=timeout_seconds))


def refers_to(subject: str, name: str | None = None, version: int = 1) -> dict[str, object]:
    """Return a reference."""
    return {"name": name or subject, "subject": subject, "version": version}


def error_of(url: str, path: str = "", **settings: Any) -> SluiceError:
    """Return what asking for schema 1 raises."""
    with pytest.raises(SluiceError) as raised:
        to(f"{url}{path}", **settings).schema(SchemaId(1))
    assert PASSWORD not in f"{raised.value}{raised.value.__cause__}{raised.value.__context__}"
    return raised.value


def test_a_schema_is_found_by_id_by_guid_and_by_version(stand_in: RegistryStandIn) -> None:
    """All four questions are asked below the address, and a schema without a type is Avro."""
    stand_in.register("a", LONG)
    proto = stand_in.register("a/b c", "message A {}", "PROTOBUF")
    registry = to(stand_in.url + "/")
    stand_in.answers["schemas/ids/77"] = Response(200, TYPE, json.dumps({"schema": LONG}).encode())

    assert registry.schema(SchemaId(1)) == registry.schema(SchemaId(77)) == SchemaText(Language.AVRO, LONG)
    found = SchemaText(Language.PROTOBUF, "message A {}")
    assert registry.schema(SchemaId(stand_in.guid(proto))) == found
    assert registry.version("a/b c", None) == registry.version("a/b c", 1) == (SchemaId(proto), found)


def test_references_come_after_what_they_refer_to(stand_in: RegistryStandIn) -> None:
    """Of a diamond each part is asked for once, and stands after all that it needs."""
    stand_in.register("base", "base")
    stand_in.register("left", "left", references=[refers_to("base")])
    stand_in.register("right", "right", references=[refers_to("base")])
    top = stand_in.register("top", "top", references=[refers_to("right"), refers_to("left")])

    schema = to(stand_in.url).schema(SchemaId(top))

    assert schema is not None
    assert schema.references == (("base", "base"), ("right", "right"), ("left", "left"))
    assert len(stand_in.asked) == 4


def test_references_that_nobody_could_read_are_refused(
    stand_in: RegistryStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Circles, one name for two schemas, more than a bound, and a reference that is not there end it."""
    monkeypatch.setattr(following, "MAX_REFERENCES", 3)
    circle = {"schema": "a", "references": [refers_to("circle")], "id": 9}
    stand_in.answers["subjects/circle/versions/1"] = Response(200, TYPE, json.dumps(circle).encode())
    for number in range(5):
        stand_in.register("many", f"{number}")
    several = [refers_to("many", f"name {number}", number) for number in range(1, 6)]
    wrong = {
        "registry-references": [
            [refers_to("circle")],
            [refers_to("many", "same", 1), refers_to("many", "same", 2)],
            several,
        ],
        "registry-no-version": [[refers_to("nowhere")]],
    }
    for code, cases in wrong.items():
        for references in cases:
            schema_id = stand_in.register("top", f"top {references}", references=references)
            with pytest.raises(ConfigError) as raised:
                to(stand_in.url).schema(SchemaId(schema_id))
            assert raised.value.code == code


def test_only_the_documented_words_say_that_there_is_no_schema(stand_in: RegistryStandIn) -> None:
    """A wrong address answers 404 too, and must not turn every record into a dead letter."""
    assert to(stand_in.url).schema(SchemaId(1)) is None
    assert to(stand_in.url).schema(SchemaId("0a0b0c0d-0000-4000-8000-00000000000f")) is None
    with pytest.raises(ConfigError, match="no version 2 of subject a") as raised:
        to(stand_in.url).version("a", 2)
    assert raised.value.code == "registry-no-version"
    wrong = error_of(stand_in.url, "/elsewhere")
    assert (type(wrong), wrong.code) == (ConfigError, "registry-no-api")


@pytest.mark.parametrize(
    ("status", "content", "kind", "code"),
    [
        (401, b"{}", ConfigError, "registry-refused"),
        (403, b"", ConfigError, "registry-refused"),
        (404, b"null", ConfigError, "registry-no-api"),
        (404, b'{"error_code": 500}', ConfigError, "registry-no-api"),
        (404, b'{"error_code": "40403"}', ConfigError, "registry-no-api"),
        (429, b"", RetryableError, "registry-away"),
        (500, b'{"error_code": 40403}', RetryableError, "registry-away"),
        (503, b"", RetryableError, "registry-away"),
        (200, b"<html>Log in</html>", RetryableError, "registry-away"),
        (200, b"", RetryableError, "registry-away"),
        (200, b'{"schema": 7}', RetryableError, "registry-away"),
        (200, b'{"schema": "\\ud800"}', RetryableError, "registry-away"),
        (200, b'{"schema": "\xff"}', RetryableError, "registry-away"),
        (200, b'{"schema": "a", "references": [{"name": "b"}]}', RetryableError, "registry-away"),
        (200, b'{"schema": "a", "schemaType": "XML"}', ConfigError, "registry-language"),
        (200, b'"' + b"a" * (http_get.MAX_ANSWER_BYTES + 9), RetryableError, "registry-away"),
    ],
)
def test_an_answer_that_is_none_is_a_named_error(
    stand_in: RegistryStandIn, status: int, content: bytes, kind: type, code: str
) -> None:
    """What the caller does about it is in its kind."""
    stand_in.answers["schemas/ids/1"] = Response(status, TYPE, content)
    error = error_of(stand_in.url)
    assert (type(error), error.code) == (kind, code)
    is_tried_again = status in {429, 500, 503} or len(content) > 1000 or b"\xff" in content
    assert len(stand_in.asked) == (3 if is_tried_again else 1)


@contextmanager
def speaking(words: bytes, pause_seconds: float = 0.0, times: int = 1) -> Iterator[str]:
    """A server that says this to everybody, so many times, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            open_ones = []
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    break
                open_ones.append(connection)
                threading.Thread(target=_say, args=(connection,), daemon=True).start()

        def _say(connection: socket.socket) -> None:
            try:
                for _ in range(times):
                    connection.sendall(words)
                    time.sleep(pause_seconds)
            except OSError:
                pass

        threading.Thread(target=speak, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_registry_that_is_away_silent_or_slow_is_named_in_time() -> None:
    """One question ends within its time, also when the answer comes in drops."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert error_of(f"http://127.0.0.1:{port}").code == "registry-away"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"
    for words, pause_seconds, times in [(b"", 0, 1), (head, 0, 1), (head, 0.05, 100), (b"SSH-2.0\r\n", 0, 1)]:
        with speaking(words, pause_seconds, times) as url:
            began = time.monotonic()
            assert error_of(url, timeout_seconds=0.3).code == "registry-away"
            assert time.monotonic() - began < 3


def test_an_answer_may_come_in_chunks() -> None:
    """Of no length told before, as some servers send all of theirs."""
    content = json.dumps({"schema": LONG}).encode()
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (content[:5], content[5:], b""))
    with speaking(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts) as url:
        assert to(url).schema(SchemaId(1)) == SchemaText(Language.AVRO, LONG)


def test_a_short_outage_is_got_over(stand_in: RegistryStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails twice is asked a third time."""
    stand_in.register("a", LONG)
    stand_in.answers["schemas/ids/1"] = Response(503, (), b"")

    def back(_: float) -> None:
        if len(stand_in.asked) == 2:
            stand_in.answers.clear()

    monkeypatch.setattr(time, "sleep", back)
    assert to(stand_in.url).schema(SchemaId(1)) is not None
    assert len(stand_in.asked) == 3


@pytest.mark.parametrize(
    ("auth", "wanted", "user"),
    [
        (
            {"basic": f"${{SLUICE_TEST_USER}}:{PASSWORD}:x"},
            basic("mé", f"{PASSWORD}:x"),
            "${SLUICE_TEST_USER}",
        ),
        ({"basic": f"me:{PASSWORD}"}, basic("me", PASSWORD), "as user me"),
        ({"bearer": "${SLUICE_TEST_TOKEN}"}, f"Bearer {PASSWORD}", "with a token"),
    ],
)
def test_who_asks_is_told_to_the_registry_alone(
    auth: dict[str, str], wanted: str, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials reach the registry, no redirect's target, no error and no text that is scrubbed."""
    monkeypatch.setenv("SLUICE_TEST_USER", "mé")
    monkeypatch.setenv("SLUICE_TEST_TOKEN", PASSWORD)
    with RegistryStandIn(wanted=wanted) as registry, RegistryStandIn() as other:
        registry.register("a", LONG)
        assert to(registry.url, auth=auth).schema(SchemaId(1)) is not None
        moved = Response(302, (("Location", f"{other.url}/schemas/ids/1"),), b"")
        registry.answers["schemas/ids/1"] = moved
        assert error_of(registry.url, auth=auth).code == "registry-moved"
        assert not other.asked
        other.answers["schemas/ids/1"] = Response(403, (), f"not you, {PASSWORD}".encode())
        refused = error_of(other.url, auth=auth)
        assert refused.code == "registry-refused"
        assert user in refused.message
    assert PASSWORD not in repr(
        access_of("main", RegistrySettings(url=registry.url, auth=RegistryAuth(**auth)))
    )
    assert PASSWORD not in scrub(f"it was {PASSWORD}{':x' if 'USER' in user else ''}")


def test_no_file_of_the_user_says_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: RegistryStandIn
) -> None:
    """Who is to ask stands in sluice.yaml: ``.netrc`` would send another service's password."""
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {PASSWORD}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    seen = []
    monkeypatch.setattr(
        stand_in, "_answer_of", lambda request, _: seen.append(request) or Response(200, (), b"")
    )
    error_of(stand_in.url)
    assert [request.headers.get("Authorization") for request in seen] == [None]


@pytest.mark.parametrize(
    ("url", "auth", "key"),
    [
        ("${SLUICE_TEST_IS}", {}, "url"),
        ("http://", {}, "url"),
        ("http://host:99999", {}, "url"),
        ("http://host", {"basic": "${SLUICE_TEST_IS}"}, "auth.basic"),
        ("http://host", {"bearer": "a b"}, "auth.bearer"),
        ("http://host", {"bearer": "${SLUICE_TEST_LINES}"}, "auth.bearer"),
    ],
)
def test_what_cannot_be_used_is_told_without_its_value(
    url: str, auth: dict[str, str], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reference gave is looked at when it is known: no user in the address, no line in a token."""
    monkeypatch.setenv("SLUICE_TEST_IS", f"http://me.{PASSWORD}@host" if key == "url" else PASSWORD)
    monkeypatch.setenv("SLUICE_TEST_LINES", f"{PASSWORD}\nX-Other: 1")
    error = error_of(url, auth=auth)
    assert (type(error), error.code) == (ConfigError, "registry-access")
    assert f"registries.main.{key}" in error.message


def test_tls_is_trusted_by_authority_and_certificate(certificates: Certificates, tmp_path: Path) -> None:
    """With the authority's file a registry is asked; without, or without our certificate, a person is."""
    ca, client_pem = str(certificates.ca), str(certificates.client)
    with RegistryStandIn(tls=certificates.server_context()) as registry:
        registry.register("a", LONG)
        assert to(registry.url, ca=ca).schema(SchemaId(1)) is not None
        unknown = error_of(registry.url)
        assert (type(unknown), unknown.code) == (ConfigError, "registry-tls")
        assert "unable to get local issuer certificate" in unknown.message
        other_name = error_of(registry.url.replace("127.0.0.1", "localhost"), ca=ca)
        assert "localhost" in other_name.message
        assert other_name.code == "registry-tls"
        (tmp_path / "empty").write_text("")
        for file in ("/nowhere/ca.pem", str(tmp_path / "empty")):
            assert error_of(registry.url, ca=file).code == "registry-tls"
            assert error_of(registry.url, ca=ca, cert=file).code == "registry-tls"
    with RegistryStandIn(tls=certificates.server_context(asks_clients=True)) as registry:
        registry.register("a", LONG)
        assert to(registry.url, ca=ca, cert=client_pem).schema(SchemaId(1)) is not None
        assert (
            to(registry.url, ca=ca, cert=client_pem, private_key=client_pem).schema(SchemaId(1)) is not None
        )
        assert error_of(registry.url, ca=ca).code in {"registry-tls", "registry-away"}
    with RegistryStandIn() as plain:
        assert error_of(plain.url.replace("http:", "https:")).code == "registry-tls"
