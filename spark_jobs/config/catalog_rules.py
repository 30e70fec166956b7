"""Rules of catalogs for new tables, from their documents, found by kind or address without a request. Pure.

- AWS Glue, as Iceberg's Java library and with it Spark takes it: lower case, digits, underscore.
- AWS's REST endpoints: "Accessing tables using the Amazon S3 Tables Iceberg REST endpoint", and of the Glue
  REST catalog "AWS Glue REST APIs for Apache Iceberg specifications": a table is not created in stages.
- Unity Catalog: "Names" in Databricks' SQL reference: 255 characters; catalog.schema.table has one namespace.
- Google's: ``projects.catalogs.namespaces.list`` in its REST reference: one level of namespaces.

Polaris, Nessie and Lakekeeper have no address to know them by; their servers refuse a name themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_jobs.protocol.errors import fault


@dataclass(frozen=True, slots=True)
class NameRule:
    """Names of tables that a catalog takes, with room for that of the dead letters."""

    catalog: str
    form: str
    names: re.Pattern[str]


_GLUE = NameRule(
    "AWS Glue",
    "a-z, 0-9 and '_', up to 252 and 242 characters",
    re.compile(r"[a-z0-9_]{1,252}\.[a-z0-9_]{1,242}"),
)
_BY_ADDRESS = {
    r"https://[^/]+/api/2\.1/unity-catalog/iceberg-rest\b.*": NameRule(
        "Unity Catalog",
        "letters, digits, '_' and '-', up to 255 and 242 characters",
        re.compile(r"[^.]{1,255}\.[^.]{1,242}"),
    ),
    r"https://biglake\.googleapis\.com/.*": NameRule(
        "Google's catalog", "letters, digits, '_' and '-'", re.compile(r"[^.]+\.[^.]+")
    ),
}
_AWS_REST = re.compile(
    r"https://((glue|s3tables)[a-z-]*\.[a-z0-9-]+\.(amazonaws\.com|api\.aws)[a-z.]*)(/.*)?"
)


def name_rule(catalog: Mapping[str, object]) -> NameRule | None:
    """Return the rule of the catalog with these properties; None if none is documented."""
    if catalog.get("type") == "glue":
        return _GLUE
    uri = str(catalog.get("uri", ""))
    return next((rule for form, rule in _BY_ADDRESS.items() if re.fullmatch(form, uri)), None)


def refuse_untaken(catalog: Mapping[str, object], table: str) -> None:
    """Raise ``ConfigError`` for a table that the catalog would not create, before anything is sent to it."""
    rule = name_rule(catalog)
    if rule and not rule.names.fullmatch(table):
        raise fault("table-name", whose=rule.catalog, form=rule.form, table=table)
    if address := _AWS_REST.fullmatch(str(catalog.get("uri", ""))):
        why = f"AWS documents no staged creation at {address[1]}"
        raise fault("catalog-creates-in-steps", why=why, table=table)
