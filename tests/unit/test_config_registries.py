"""``registries:`` as it is written, what is refused in it, and that its secrets are shown nowhere."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from spark_jobs.config.file import read_config
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.connect import open_registry
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.registry.http_get import access_of
from spark_jobs.storage.create_only import CreateOnlyStore

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "hunter2-Tr0ub4dor"
AUTH = "registries.main.auth"
KAFKA = "kafka: {bootstrap.servers: k}\ncatalog: {type: sql, uri: sqlite:///x, warehouse: /w}\n"
FILES = "ca: /a, key: /k, cert: /c"


def read(tmp_path: Path, registry: str, more: str = "") -> tuple[SluiceConfig, list[str], list[str]]:
    """Return what a file with one registry means, its mistakes and its notes."""
    file = tmp_path / "sluice.yaml"
    file.write_text(f"version: 1\nregistries:\n  main: {registry}\n{more}")
    reading = read_config(file)
    assert reading.config is not None
    return reading.config, [str(each) for each in reading.problems], [str(each) for each in reading.notes]


def test_a_registry_is_read_with_references_unresolved(tmp_path: Path) -> None:
    """All keys; several stand by name; what is left out has its default."""
    written = (
        "{url: 'http://r:8081/apis', auth: {basic: '${R_USER}:${R_PASSWORD}'}, ca: /ca, cert: /c, key: /k,"
        " timeout: 3s}\n  other: {url: '${R_URL}', auth: {bearer: '${file:/run/t}'}}"
    )
    config, problems, notes = read(tmp_path, written)
    assert not [*problems, *notes]
    main, other = config.registries["main"], config.registries["other"]
    assert (main.url, main.ca, main.cert, main.private_key, main.timeout_seconds) == (
        "http://r:8081/apis", "/ca", "/c", "/k", 3,
    )  # fmt: skip
    assert main.auth.basic is not None
    assert main.auth.basic.get_secret_value() == "${R_USER}:${R_PASSWORD}"
    assert (other.url, other.auth.basic, other.timeout_seconds) == ("${R_URL}", None, 10)


@pytest.mark.parametrize(
    ("registry", "key", "told"),
    [
        ("{}", "registries.main.url", "is required"),
        ("{url: 'http://r', kind: pulsar}", "registries.main.kind", "'pulsar' is not a kind of registry"),
        ("{url: 'http://r', kind: azure}", "registries.main.kind", "Values of Azure's serializers are bare"),
        ("{url: 'http://r', region: eu-west-1}", "registries.main.region", "write kind: glue"),
        ("{url: 'ftp://r'}", "registries.main.url", "is not a URL"),
        (f"{{url: 'http://me:{PASSWORD}@r'}}", "registries.main.url", "auth.basic"),
        (f"{{url: 'http://r?token={PASSWORD}'}}", "registries.main.url", "contains a user, a query"),
        ("{url: 'http://r', url_prefix: x}", "registries.main.url_prefix", "Known here: auth"),
        ("{url: 'http://r', ca: ca.pem}", "registries.main.ca", "is not an absolute path"),
        ("{url: 'http://r', key: /k}", "registries.main.key", "without its certificate"),
        ("{url: 'http://r', timeout: 10}", "registries.main.timeout", "unit"),
        (f"{{url: 'http://r', auth: {{basic: ['{PASSWORD}']}}}}", f"{AUTH}.basic", "a single value"),
        (
            f"{{url: 'http://r', auth: {{basic: '${{{PASSWORD}'}}}}",
            f"{AUTH}.basic",
            "no closing",
        ),
        (
            f"{{url: 'http://r', auth: {{bearer: '${{-{PASSWORD}}}'}}}}",
            f"{AUTH}.bearer",
            "does not contain the name",
        ),
        (
            f"{{url: 'http://r', auth: {{basic: 'a:{PASSWORD}', bearer: t}}}}",
            f"{AUTH}",
            "Keep one",
        ),
        ("{url: 'http://r'}\n  'a/b': {url: 'http://r'}", "registries.a/b", "is not a valid registry name"),
    ],
)
def test_a_mistake_is_named_with_its_key_and_no_secret(
    tmp_path: Path, registry: str, key: str, told: str
) -> None:
    """One mistake, one line, which holds no value that may be secret."""
    _, (problem,), _ = read(tmp_path, registry)
    assert f" {key}: " in problem
    assert told in problem
    assert PASSWORD not in problem


@pytest.mark.parametrize("auth", [f"{{basic: 'me:{PASSWORD}'}}", f"{{bearer: {PASSWORD}}}"])
def test_a_secret_in_plain_text_is_noted_and_shown_nowhere(tmp_path: Path, auth: str) -> None:
    """The note names the key; the configuration's own texts hold no secret, and its pickle is whole."""
    config, problems, (note,) = read(tmp_path, f"{{url: 'http://r', {FILES}, auth: {auth}}}")
    assert not problems
    assert f"{AUTH}.b" in note
    shown = (repr(config), str(config.model_dump()), config.model_dump_json(), note, repr(config.registries))
    assert not [text for text in shown if PASSWORD in text]
    again = pickle.loads(pickle.dumps(config))  # noqa: S301  (our own bytes)
    assert again == config


@pytest.mark.parametrize(
    ("kind", "value", "wrong", "told"),
    [
        ("apicurio", "{format: avro}", "value.framing", "which is of kind apicurio"),
        ("apicurio", "{format: protobuf, framing: apicurio}", "value.format", "Use avro or json_schema"),
        (
            "confluent",
            "{format: avro, framing: apicurio}",
            "value.framing",
            "Write framing: confluent or none",
        ),
        ("glue", "{format: protobuf, framing: glue}", "value.format", "Use avro or json_schema"),
        ("glue", "{format: json_schema, framing: glue}", "", ""),
        ("apicurio", "{format: avro, framing: apicurio_global}", "", ""),
        ("apicurio", "{format: protobuf, framing: none}", "", ""),
    ],
)
def test_what_a_kind_does_not_write_is_refused_by_name(
    tmp_path: Path, kind: str, value: str, wrong: str, told: str
) -> None:
    """Frames and formats belong to the registry's serializers."""
    written = value.replace("{", "{registry: main, ")
    more = f"pipelines: {{a: {{topic: t, table: a.b, value: {written}}}}}\n"
    _, problems, _ = read(tmp_path, f"{{kind: {kind}, url: 'http://r'}}", KAFKA + more)
    assert len(problems) == bool(told)
    assert all(f"pipelines.a.{wrong}: " in each and told in each for each in problems)


def test_a_missing_secret_names_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that asks no registry does not miss it; one that does is told the key."""
    monkeypatch.delenv("SLUICE_TEST_NOT_SET", raising=False)
    config, _, _ = read(tmp_path, "{url: 'http://r', auth: {basic: '${SLUICE_TEST_NOT_SET}'}}")
    with pytest.raises(ConfigError, match=r"registries\.main\.auth\.basic") as raised:
        access_of("main", config.registries["main"])
    assert raised.value.code == "missing-secret"


def test_a_registry_that_is_not_configured_is_named(tmp_path: Path) -> None:
    """Drivers reach one by its name, which a file may have mistyped."""
    config, _, _ = read(tmp_path, "{url: 'http://r'}")
    store = CreateOnlyStore(str(tmp_path / "state"), {})
    assert open_registry(config.registries, store, "main").kept() == {}
    with pytest.raises(ConfigError, match="registry mian is not configured") as raised:
        open_registry(config.registries, store, "mian")
    assert raised.value.code == "no-registry"


def test_a_team_file_declares_no_registry(tmp_path: Path) -> None:
    """It would send what the platform's secrets open to an address of its own."""
    (tmp_path / "team.yaml").write_text("registries: {main: {url: 'http://elsewhere'}}\npipelines: {}\n")
    config, problems, _ = read(tmp_path, "{url: 'http://r'}", "include: team.yaml\n")
    assert not problems
    assert config.registries["main"].url == "http://r"
    (left_out,) = map(str, config.problems)
    assert "registries: is not a key" in left_out
