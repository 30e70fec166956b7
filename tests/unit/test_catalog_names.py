"""PyIceberg's catalog properties under the names Spark's Iceberg wants."""

from __future__ import annotations

import pytest

from spark_jobs.lake.catalog_names import java_properties, spark_catalog_conf
from spark_jobs.protocol.errors import ConfigError


def test_the_embedded_catalog_for_spark():
    """SQLite becomes JdbcCatalog on the same file, with the schema version PyIceberg writes."""
    conf = spark_catalog_conf(
        "sluice",
        {
            "type": "sql",
            "uri": "sqlite:////home/.sluice/catalog.db",
            "warehouse": "file:///home/.sluice/lake",
        },
    )
    assert conf == {
        "spark.sql.catalog.sluice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.sluice.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.sluice.uri": "jdbc:sqlite:/home/.sluice/catalog.db",
        "spark.sql.catalog.sluice.jdbc.schema-version": "V1",
        "spark.sql.catalog.sluice.warehouse": "file:///home/.sluice/lake",
    }


def test_a_rest_catalog_over_s3():
    """Renamed, passed through, and PyIceberg-only properties each go their way."""
    assert java_properties(
        {
            "type": "rest",
            "uri": "http://host:8181",
            "warehouse": "s3://bucket/lake",
            "credential": "id:secret",
            "token": "t",
            "oauth2-server-uri": "http://host/tokens",
            "header.X-Team": "a",
            "s3.endpoint": "http://s3:9000",
            "s3.region": "eu-west-1",
            "s3.access-key-id": "a",
            "s3.secret-access-key": "b",
            "s3.session-token": "c",
            "s3.connect-timeout": "2.5",
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            "s3.profile-name": "p",
            "ssl.cabundle": "/x",
            "auth.type": "oauth2",
        }
    ) == {
        "type": "rest",
        "uri": "http://host:8181",
        "warehouse": "s3://bucket/lake",
        "credential": "id:secret",
        "token": "t",
        "oauth2-server-uri": "http://host/tokens",
        "header.X-Team": "a",
        "s3.endpoint": "http://s3:9000",
        "client.region": "eu-west-1",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.session-token": "c",
        "s3.path-style-access": "true",
        "http-client.apache.connection-timeout-ms": "2500",
        "token-exchange-enabled": "false",
    }


def test_logins_of_azure_are_by_account():
    """A key and a token as Iceberg-Java wants them; of an identity it asks the environment."""
    lake = "abfss://box@acct.dfs.core.chinacloudapi.cn/lake"
    rest = {"type": "rest", "uri": "http://host"}
    emulator = {
        "adls.blob-storage-authority": "127.0.0.1:1",
        "adls.connection-string.acct": "http://127.0.0.1:1",
    }
    assert java_properties({**rest, "warehouse": lake, "adls.account-key": "k", **emulator}) == {
        **rest,
        "warehouse": lake,
        "adls.auth.shared-key.account.name": "acct",
        "adls.auth.shared-key.account.key": "k",
        "adls.connection-string.acct": "http://127.0.0.1:1",
    }
    shared = {"warehouse": lake, "adls.sas-token": "s"}
    assert java_properties(rest | shared)["adls.sas-token.acct.dfs.core.chinacloudapi.cn"] == "s"
    named = {"warehouse": "sales", "adls.account-name": "acct", "adls.sas-token": "s"}
    assert java_properties(rest | named)["adls.sas-token.acct.dfs.core.windows.net"] == "s"
    login = {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"}
    assert java_properties(rest | {"warehouse": lake} | login) == rest | {"warehouse": lake}


def test_a_rest_catalog_that_verifies_signatures():
    """Java signs the catalog's requests by names of their own; the store's keys stay what they are."""
    signed = {"rest.sigv4-enabled": "true", "rest.signing-name": "glue", "client.region": "eu-west-1"}
    keys = {"client.access-key-id": "a", "client.secret-access-key": "b", "s3.access-key-id": "s"}
    java = java_properties({"type": "rest", "uri": "https://host", **signed, **keys})
    assert java == {
        "type": "rest",
        "uri": "https://host",
        **signed,
        "rest.signing-region": "eu-west-1",
        "rest.access-key-id": "a",
        "rest.secret-access-key": "b",
        "s3.access-key-id": "s",
        "s3.secret-access-key": "b",
    }


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"s3.endpoint": "http://s3", "s3.force-virtual-addressing": "True"}, "false"),
        ({"s3.endpoint": "http://s3", "s3.force-virtual-addressing": "false"}, "true"),
        ({"s3.endpoint": "http://s3"}, "true"),
        ({}, None),
        ({"s3.endpoint": "http://s3", "s3.path-style-access": "false"}, "false"),
    ],
)
def test_buckets_are_addressed_the_same_way(properties, expected):
    """Both clients reach a bucket by path, or both by host name."""
    java = java_properties({"uri": "http://host", **properties})
    assert java.get("s3.path-style-access") == expected


def test_a_database_password_leaves_the_address():
    """JDBC takes user and password as properties, decoded."""
    java = java_properties(
        {"uri": "postgresql+psycopg2://me:p%26w@db:5432/lake?sslmode=require", "warehouse": "s3://b/l"}
    )
    assert java == {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "jdbc.schema-version": "V1",
        "uri": "jdbc:postgresql://db:5432/lake?sslmode=require",
        "jdbc.user": "me",
        "jdbc.password": "p&w",
        "warehouse": "s3://b/l",
        "io-impl": "org.apache.iceberg.io.ResolvingFileIO",
    }


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({"uri": "thrift://h:9083"}, "hive"),
        ({"uri": "https://h"}, "rest"),
        ({"type": "glue", "glue.region": "eu-west-1"}, "glue"),
    ],
)
def test_the_type_follows_the_address(properties, kind):
    """Without a type the scheme decides, as in PyIceberg."""
    assert java_properties(properties)["type"] == kind


def test_an_assumed_role_names_its_factory():
    """Iceberg-Java needs the factory and a region besides the role."""
    java = java_properties(
        {"type": "glue", "client.role-arn": "arn:aws:iam::1:role/x", "client.region": "eu-west-1"}
    )
    assert java["client.assume-role.arn"] == "arn:aws:iam::1:role/x"
    assert java["client.assume-role.region"] == "eu-west-1"
    assert java["client.factory"].endswith("AssumeRoleAwsClientFactory")


def test_a_catalog_without_a_counterpart_is_refused():
    """Unless its Java class is named."""
    with pytest.raises(ConfigError) as raised:
        java_properties({"type": "in-memory"})
    assert raised.value.code == "unknown-catalog-type"
    assert java_properties({"type": "x", "catalog-impl": "org.X", "uri": "u"}) == {
        "catalog-impl": "org.X",
        "uri": "u",
    }
