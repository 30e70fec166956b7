"""Catalog properties by name: from PyIceberg's to Iceberg-Java's, for Spark. One table, pure.

A property in no row has one name for both (``warehouse``, ``token``, ``header.…``, anything custom) and
passes through. Some are PyIceberg's alone; Spark then uses its platform's own defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from spark_jobs.protocol.errors import fault
from spark_jobs.storage.azure import AZURE_SCHEMES, azure_container

SPARK_CATALOG_CLASS = "org.apache.iceberg.spark.SparkCatalog"
JDBC_CATALOG_CLASS = "org.apache.iceberg.jdbc.JdbcCatalog"
ASSUME_ROLE_FACTORY = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"
RESOLVING_FILE_IO = "org.apache.iceberg.io.ResolvingFileIO"

# PyIceberg's name -> Iceberg-Java's; the first one present wins where two rows lead to one name.
_JAVA_NAMES = {
    "s3.access-key-id": "s3.access-key-id",
    "client.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "client.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "client.session-token": "s3.session-token",
    "s3.region": "client.region",
    "client.region": "client.region",
    "glue.region": "client.region",
    "s3.role-arn": "client.assume-role.arn",
    "client.role-arn": "client.assume-role.arn",
    "s3.role-session-name": "client.assume-role.session-name",
    "client.role-session-name": "client.assume-role.session-name",
    "s3.proxy-uri": "http-client.proxy-endpoint",
    "s3.connect-timeout": "http-client.apache.connection-timeout-ms",
    "s3.request-timeout": "http-client.apache.socket-timeout-ms",
    "s3.sse-kms-key-id": "s3.sse.key",
    "s3.force-virtual-addressing": "s3.path-style-access",
}
# Iceberg-Java has names of their own for what requests to a catalog are signed with.
_SIGNING = {
    "rest.access-key-id": "client.access-key-id",
    "rest.secret-access-key": "client.secret-access-key",
    "rest.session-token": "client.session-token",
    "rest.signing-region": "client.region",
}
_PYICEBERG_ONLY = {
    "gcs.requester-pays", "s3.anonymous", "s3.profile-name", "s3.resolve-region", "s3.retry-strategy-impl",
    "client.profile-name", "glue.profile-name", "glue.access-key-id", "glue.secret-access-key",
    "glue.session-token", "glue.max-retries", "glue.retry-mode", "downcast-ns-timestamp-to-us-on-write",
    "echo", "init_catalog_tables", "pool_pre_ping", "adls.account-name", "adls.account-key", "adls.sas-token",
    "adls.tenant-id", "adls.client-id", "adls.client-secret",
}  # fmt: skip
_PYICEBERG_FAMILIES = re.compile(r"(py-|auth(\.|$)|ssl(\.|$)|hdfs\.|hf\.|adls\.(blob|dfs)-storage-).*")
_NOT_AS_IT_IS = {*_JAVA_NAMES, *_PYICEBERG_ONLY, "type", "uri", "catalog-impl"}
_MILLISECONDS = ("http-client.apache.connection-timeout-ms", "http-client.apache.socket-timeout-ms")
_TYPES_BY_SCHEME = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
_OBJECT_STORES = ("s3://", "s3a://", "gs://", *(f"{scheme}://" for scheme in AZURE_SCHEMES))


def spark_catalog_conf(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's configuration of the catalog ``name``, so that both clients see the same tables.

    ``properties`` are PyIceberg's, resolved: a password inside ``uri`` becomes a property of its own. Raises
    ``ConfigError`` (``unknown-catalog-type``) for a catalog Spark has no counterpart of.
    """
    prefix = f"spark.sql.catalog.{name}"
    java = java_properties(properties)
    return {prefix: SPARK_CATALOG_CLASS, **{f"{prefix}.{key}": value for key, value in java.items()}}


def java_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the catalog's properties by Iceberg-Java's names."""
    java = _implementation(properties)
    for key, value in properties.items():
        if key not in _NOT_AS_IT_IS and not _PYICEBERG_FAMILIES.fullmatch(key):
            java[key] = value
    for key, java_name in _JAVA_NAMES.items():
        if key in properties:
            java.setdefault(java_name, _java_value(key, java_name, properties[key]))
    if "s3.endpoint" in properties:
        # Given an endpoint, PyIceberg addresses buckets by path; Iceberg-Java never does so by itself.
        java.setdefault("s3.path-style-access", "true")
    if "client.assume-role.arn" in java:
        java.setdefault("client.factory", ASSUME_ROLE_FACTORY)
        java.setdefault("client.assume-role.region", java.get("client.region", "us-east-1"))
    java |= _azures(properties)
    if "s3.sse.key" in java:
        java.setdefault("s3.sse.type", "kms")
    if "credential" in properties:
        # Java would exchange a token for the next one: few providers do, and then it uses the ended one on.
        java.setdefault("token-exchange-enabled", "false")
    if properties.get("rest.sigv4-enabled", "").lower() == "true":
        java = {name: properties[own] for name, own in _SIGNING.items() if own in properties} | java
    return java


def _azures(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the logins of Azure, which Iceberg-Java has by account. Others it finds in the environment."""
    account = properties.get("adls.account-name", "")
    host = f"{account}.dfs.core.windows.net"
    scheme, _, rest = properties.get("warehouse", "").partition("://")
    if scheme in AZURE_SCHEMES:
        _, account, host, _ = azure_container(rest.partition("/")[0])
    java = {}
    if account and (key := properties.get("adls.account-key")):
        java["adls.auth.shared-key.account.name"] = account
        java["adls.auth.shared-key.account.key"] = key
    if account and (token := properties.get("adls.sas-token")):
        java[f"adls.sas-token.{host}"] = token
    return java


def catalog_type(properties: Mapping[str, str]) -> str:
    """Return the type as PyIceberg decides: ``type``, else the scheme of ``uri``; empty if unknown."""
    scheme = urlsplit(properties.get("uri", "")).scheme.partition("+")[0]
    return properties.get("type", "").lower() or _TYPES_BY_SCHEME.get(scheme, "")


def _implementation(properties: Mapping[str, str]) -> dict[str, str]:
    uri = {"uri": properties["uri"]} if "uri" in properties else {}
    if "catalog-impl" in properties:
        return {"catalog-impl": properties["catalog-impl"], **uri}
    kind = catalog_type(properties)
    if kind == "sql":
        implementation = {
            "catalog-impl": JDBC_CATALOG_CLASS,
            "jdbc.schema-version": "V1",
            **_jdbc(properties),
        }
    elif kind in {"rest", "hive", "glue"}:
        implementation = {"type": kind, **uri}
    else:
        raise fault("unknown-catalog-type", kind=kind or "(none)")
    if kind != "rest" and properties.get("warehouse", "").startswith(_OBJECT_STORES):
        implementation["io-impl"] = RESOLVING_FILE_IO
    return implementation


def _jdbc(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``jdbc:sqlite:/x/catalog.db`` for ``sqlite:////x/catalog.db``; strips user and password."""
    url = urlsplit(properties.get("uri", ""))
    dialect = url.scheme.partition("+")[0]
    if dialect == "sqlite":
        return {"uri": f"jdbc:sqlite:{url.path.removeprefix('/')}"}
    address = url.netloc.rpartition("@")[2]
    query = f"?{url.query}" if url.query else ""
    java = {"uri": f"jdbc:{dialect}://{address}{url.path}{query}"}
    if url.username:
        java["jdbc.user"] = unquote(url.username)
    if url.password:
        java["jdbc.password"] = unquote(url.password)
    return java


def _java_value(key: str, java_name: str, value: str) -> str:
    if java_name in _MILLISECONDS:
        return str(round(float(value) * 1000))
    if key == "s3.force-virtual-addressing":
        return "false" if value.strip().lower() in {"true", "1", "yes", "y", "on"} else "true"
    return value
