"""A secret is found in nothing that is shown: searched for in every text the configuration gives."""

from __future__ import annotations

import json
import pickle
import traceback

import pytest

from cli import output
from spark_jobs.config.file import load_config
from spark_jobs.config.redaction import is_secret_key
from spark_jobs.config.secrets import remember, resolve, scrub
from spark_jobs.connections.endpoints import (
    Endpoints,
    clear_endpoints,
    resolve_kafka_properties,
    write_endpoints,
)
from spark_jobs.protocol.errors import ConfigError

SECRET = "hunter2-Tr0ub4dor&3"

FILE = f"""\
version: 1
kafka:
  bootstrap.servers: broker:9092
  sasl.password: '{SECRET}'
  sasl.oauthbearer.client.secret: '{SECRET}'
  ssl.key.pem: '{SECRET}'
state:
  uri: s3://bucket/log
  s3.secret-access-key: '{SECRET}'
catalog:
  type: sql
  uri: 'postgresql://me:{SECRET.replace("&", "%26")}@db/catalog'
  s3.secret-access-key: '{SECRET}'
  adls.connection-string: '{SECRET}'
  header.Authorization: '{SECRET}'
spark:
  remote: 'sc://spark:15002/;token={SECRET}'
  conf:
    spark.hadoop.fs.s3a.secret.key: '{SECRET}'
    spark.ssl.keyPassword: '{SECRET}'
sources:
  shop: 'postgresql://me@db/shop?password={SECRET}'
"""


@pytest.fixture
def main_file(tmp_path, monkeypatch):
    """A file with a secret in every place for one."""
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    file = tmp_path / "sluice.yaml"
    file.write_text(FILE)
    return file


def test_models_never_show_a_secret(main_file):
    """repr, str, model_dump and its JSON hold none; the values themselves are kept, also by pickle."""
    config = load_config(main_file)
    shown = [
        repr(config),
        str(config),
        f"{config.kafka and config!r}",
        str(config.model_dump()),
        config.model_dump_json(),
    ]
    shown += [repr(config.catalog), repr(config.spark), str(config.spark)]
    assert not [text for text in shown if "hunter2" in text]
    assert "broker:9092" in shown[0]
    assert config.kafka["sasl.password"] == SECRET
    assert pickle.loads(pickle.dumps(config)).kafka["sasl.password"] == SECRET  # noqa: S301  (our own bytes)


def test_mistakes_never_show_a_secret(main_file):
    """A file whose secret has the wrong shape, or stands beside a mistake, is reported without it."""
    for old, new in [
        (f"sasl.password: '{SECRET}'", f"sasl.password: ['{SECRET}']"),
        ("version: 1", "version: 2"),
        ("sc://", "spark://"),
        ("postgresql://me@db", "mysql://me@db"),
        ("kafka:", "kafka: ]"),
        (f"ssl.key.pem: '{SECRET}'", f"ssl.key.pem: '${{{SECRET}'"),
        (f"  ssl.key.pem: '{SECRET}'", f"  ssl.key.pem: '{SECRET}"),
    ]:
        assert old in FILE
        main_file.write_text(FILE.replace(old, new))
        with pytest.raises(ConfigError) as raised:
            load_config(main_file)
        assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_references_are_resolved_when_asked_and_scrubbed_after(tmp_path, monkeypatch):
    """Each call reads anew, so a rotated secret counts; every value given is taken out of later text."""
    file = tmp_path / "token"
    file.write_text("file-secret-1\n")
    monkeypatch.setenv("SLUICE_TEST_PASSWORD", SECRET)
    properties = {"sasl.password": "${SLUICE_TEST_PASSWORD}", "x": f"a-${{file:{file}}}-b", "plain": "p"}
    assert resolve(properties) == {"sasl.password": SECRET, "x": "a-file-secret-1-b", "plain": "p"}
    file.write_text("file-secret-2")
    assert resolve(properties)["x"] == "a-file-secret-2-b"
    said = scrub(f"refused {SECRET} file-secret-1 file-secret-2 hunter2-Tr0ub4dor%263 plain p")
    assert said == "refused *** *** *** *** plain p"


def test_a_resolved_value_is_not_resolved_again(monkeypatch):
    """A password that looks like a reference is that password."""
    monkeypatch.setenv("SLUICE_TEST_ODD", "${HOME}")
    assert resolve({"sasl.password": "${SLUICE_TEST_ODD}"}) == {"sasl.password": "${HOME}"}


def test_passwords_in_addresses_are_scrubbed_and_addresses_are_not(monkeypatch):
    """An error may name the broker it did not reach, and never the password in a catalog's address."""
    monkeypatch.setenv("SLUICE_TEST_BROKER", "broker-9.example:9092")
    monkeypatch.setenv("SLUICE_TEST_URI", "postgresql://me:db-pass%2Fword@db/catalog")
    resolve({"bootstrap.servers": "${SLUICE_TEST_BROKER}", "uri": "${SLUICE_TEST_URI}"})
    said = scrub("broker-9.example:9092 refused postgresql://me:db-pass%2Fword@db/catalog db-pass/word")
    assert said == "broker-9.example:9092 refused postgresql://me:***@db/catalog ***"


@pytest.mark.parametrize("reference", ["${SLUICE_TEST_NOT_SET}", "${file:/nowhere/secret}"])
def test_a_missing_secret_names_its_key(monkeypatch, reference):
    """The error says which key and which reference."""
    monkeypatch.delenv("SLUICE_TEST_NOT_SET", raising=False)
    with pytest.raises(ConfigError) as raised:
        resolve({"sasl.password": f"{SECRET}{reference}"})
    assert raised.value.code == "missing-secret"
    assert raised.value.where == {"key": "sasl.password"}
    assert "hunter2" not in str(raised.value)


def test_the_embedded_broker_is_found_when_it_runs(tmp_path, monkeypatch):
    """Without a configured broker the running one is used; with none running the error says what to do."""
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    file = tmp_path / "sluice.yaml"
    file.write_text("version: 1\nkafka: {client.id: me}\n")
    config = load_config(file)
    with pytest.raises(ConfigError) as raised:
        resolve_kafka_properties(config)
    assert raised.value.code == "no-broker"
    write_endpoints(config.home, Endpoints("127.0.0.1:1234", None))
    kafka = resolve_kafka_properties(config)
    assert kafka == {"client.id": "me", "bootstrap.servers": "127.0.0.1:1234"}
    clear_endpoints(config.home)
    with pytest.raises(ConfigError):
        resolve_kafka_properties(config)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("sasl.password", True),
        ("ssl.key.pem", True),
        ("s3.access-key-id", False),
        ("token", True),
        ("credential", True),
        ("adls.sas-token", True),
        ("spark.hadoop.fs.azure.account.key", True),
        ("ssl.key.location", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("bootstrap.servers", False),
        ("spark.sql.shuffle.partitions", False),
    ],
)
def test_secret_keys_are_recognised(key, expected):
    """Passwords, keys and tokens are; paths and addresses of them are not."""
    assert is_secret_key(key) is expected


def test_problems_are_plain_values(main_file):
    """What a team file got wrong can be shown as JSON beside the pipelines."""
    config = load_config(main_file)
    assert json.loads(config.model_dump_json())["problems"] == []


@pytest.mark.parametrize(
    ("secret", "text", "said"),
    [
        ("pa55w", "refused pa55w, 'pa55w': pa55w", "refused ***, '***': ***"),
        ("pa55w", "spa55w pa55words", "spa55w pa55words"),
        ("a+b?", "0:a+b?", "0:***"),
        ("orders", "./sluice drain orders of lake.orders", "./sluice drain orders of lake.orders"),
        ("orders", "sasl.password=orders; token: 'orders'", "sasl.password=***; token: '***'"),
        ("orders", '{"s3.secret-access-key": "orders"}', '{"s3.secret-access-key": "***"}'),
        ("orders", "postgresql://orders:orders@db/orders", "postgresql://orders:***@db/orders"),
        ("orders", "Authorization: Bearer orders", "Authorization: Bearer ***"),
        ("4711", "--range 0:4711-9999, password 4711", "--range 0:4711-9999, password 4711"),
        ("4711", "sslpassword=4711&x", "sslpassword=***&x"),
        ("abc", "password=abc", "password=abc"),
    ],
)
def test_a_short_secret_is_masked_where_it_can_be_no_other_word(monkeypatch, secret, text, said):
    """Of four to seven characters: standing alone, and words and numbers only where a secret is written."""
    monkeypatch.setattr("spark_jobs.config.secrets._remembered", set())
    remember(secret)
    assert scrub(text) == said


def test_no_name_is_masked_for_being_somebody_s_id_or_a_short_secret(monkeypatch, capsys):
    """A hint stays what one can type, and a row what the table has: `sluice` and `orders` are words."""
    for name, value in (("ID", "sluice"), ("USER", "payments-team"), ("PASSWORD", "orders")):
        monkeypatch.setenv(f"SLUICE_TEST_{name}", value)
    resolve(
        {
            "s3.access-key-id": "${SLUICE_TEST_ID}",
            "sasl.username": "${SLUICE_TEST_USER}",
            "sasl.password": "${SLUICE_TEST_PASSWORD}",
            "token": SECRET,
        }
    )
    said = "./sluice drain orders, as payments-team"
    assert scrub(said) == said
    output.json_line({"pipeline": SECRET, SECRET: 1, "reason": f"refused {SECRET}"})
    assert json.loads(capsys.readouterr().out) == {"pipeline": SECRET, SECRET: 1, "reason": "refused ***"}
    output.table(["v"], [[f"is {SECRET}"]], is_data=True)
    output.table(["v"], [[f"is {SECRET}"]])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["v", f"is {SECRET}", "v", "is ***"]
