"""One rule says which names hold secrets: to Sluice, to the Spark it starts, and in the recipe for others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from resources.spark import _local_conf
from servers.process import ServerFolder
from servers.spark_connect import SparkConnectSettings, write_conf
from spark_jobs.config.redaction import SPARK_REDACTION, is_plain_secret, is_secret_key
from spark_jobs.config.secrets import resolve, scrub
from spark_jobs.config.settings import CatalogSettings, SluiceConfig

SECRET_NAMES = [
    "credential",
    "token",
    "s3.secret-access-key",
    "s3.session-token",
    "adls.auth.shared-key.account.key",
    "connection-string",
    "header.X-Api-Key",
    "header.Authorization",
    "header.Cookie",
    "sasl.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.secret",
    "adls.connection-string.account",
    "ssl.key.pem",
    "ssl.key.password",
    "PGPASS",
]
SHOWN_NAMES = [
    "s3.access-key-id",
    "fs.s3a.access.key",
    "sasl.username",
    "adls.account-name",
    "ssl.key.location",
    "sasl.oauthbearer.token.endpoint.url",
    "rest.authorization-url",
    "spark.hadoop.fs.s3a.aws.credentials.provider",
    "bootstrap.servers",
    "warehouse",
    "header.X-Iceberg-Access-Delegation",
    "spark.sql.shuffle.partitions",
]
PREFIXES = ["", "spark.sql.catalog.lake.", "spark.hadoop.", "spark.executorEnv."]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_secret_name_is_hidden_by_sluice_and_by_spark(name: str, prefix: str) -> None:
    """Also under the prefix with which it reaches Spark."""
    assert is_secret_key(prefix + name)
    assert re.search(SPARK_REDACTION, prefix + name)


@pytest.mark.parametrize("name", SHOWN_NAMES)
def test_what_is_no_secret_is_shown(name: str) -> None:
    """Addresses, places and classes are what one looks for when something does not work."""
    assert not is_secret_key(name)


@pytest.mark.parametrize(
    "value", ["jdbc:postgresql://me:hunter2@db/lake", "sc://spark:15002/;token=hunter2", "jdbc:x?password=y"]
)
def test_a_value_that_carries_a_password_is_hidden_by_spark_under_any_name(value: str) -> None:
    """Spark looks for the rule in values, too."""
    assert re.search(SPARK_REDACTION, value)
    assert not re.search(SPARK_REDACTION, "http://catalog:8181/api")


def test_all_sessions_have_the_rule(tmp_path: Path) -> None:
    """The server of `up` and a session in this process have both settings, word for word."""
    catalog = CatalogSettings(properties={"type": "rest", "uri": "http://catalog:8181"})
    config = SluiceConfig(home=str(tmp_path), state="/s", catalog=catalog)
    folder = ServerFolder(tmp_path, "spark")
    rule = dict.fromkeys(("spark.redaction.regex", "spark.sql.redaction.options.regex"), SPARK_REDACTION)
    written = write_conf(SparkConnectSettings(folder, home=folder.home, port=1, cores=1)).read_text()
    server = [re.sub(r"\\(.)", r"\1", line) for line in written.splitlines()]
    assert {f"{key} {value}" for key, value in rule.items()} <= {*server}
    assert rule.items() <= _local_conf(config).items()


@pytest.mark.parametrize("key", ["sasl.username", "sasl.mechanism", "sasl.mechanisms"])
def test_a_user_name_is_not_taken_out_of_what_is_said(key: str) -> None:
    """A user named as a table would spoil every line about that table; Spark hides it all the same."""
    assert not is_secret_key(key)
    resolve({key: "test-redaction-orders"})
    assert scrub("lake.test-redaction-orders") == "lake.test-redaction-orders"
    assert re.search(SPARK_REDACTION, key)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("sasl.password", "hunter2", True),
        ("sasl.password", "${KAFKA_PASSWORD}", False),
        ("sasl.password", "${file:/run/secrets/kafka}", False),
        ("header.Authorization", "Bearer ${TOKEN}", False),
        ("uri", "postgresql://me:hunter2@db/lake", True),
        ("uri", "postgresql://me:${PGPASSWORD}@db/lake", False),
        ("uri", "postgresql://db/lake", False),
        ("sasl.password", "", False),
    ],
)
def test_a_secret_in_plain_text_is_told_from_a_reference(key: str, value: str, expected: bool) -> None:
    """By its name, or as the password inside an address."""
    assert is_plain_secret(key, value) is expected


def test_the_page_on_spark_gives_the_rule_as_it_is() -> None:
    """Who runs a server of their own copies it from there."""
    assert SPARK_REDACTION in (Path(__file__).parents[2] / "docs" / "how-to" / "spark-cluster.md").read_text()


def test_a_signature_of_azure_is_masked_wherever_it_stands() -> None:
    """Azure's client puts a token's parts in another order before an error has them."""
    resolve({"adls.sas-token": "sv=2021-12-02&sr=c&sp=rl&sig=abc%2Bdef%3D"})
    assert (
        scrub("PUT https://a/c?se=2099&sig=abc%2Bdef%3D&sp=rl failed")
        == "PUT https://a/c?se=2099&sig=***&sp=rl failed"
    )
