"""Tables that a catalog would not create, by its documents: known before anything is sent to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pyiceberg.exceptions import NoSuchTableError

from cli.commands import check_steps
from spark_jobs.commit.table_creation import create_dead_letter_table
from spark_jobs.config.build import build_config
from spark_jobs.config.catalog_rules import refuse_untaken
from spark_jobs.config.file import parse_document
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import Progress

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

GLUE = {"type": "glue"}
UNITY = {"type": "rest", "uri": "https://work.cloud.databricks.com/api/2.1/unity-catalog/iceberg-rest"}
GOOGLE = {"type": "rest", "uri": "https://biglake.googleapis.com/iceberg/v1/restcatalog"}
OTHER = {"type": "rest", "uri": "https://catalog.example.com/api/catalog"}
TOO_LONG = f"l.{'x' * 243}"


@pytest.mark.parametrize(
    ("table", "untaken"),
    [
        ("l.orders_2", []),
        ("l.{topic}", []),
        ("l.Orders", ["AWS Glue"]),
        ("l.or-ders", ["AWS Glue"]),
        ("a.b.orders", ["AWS Glue", "Unity Catalog", "Google's catalog"]),
        (TOO_LONG, ["AWS Glue", "Unity Catalog"]),
    ],
)
def test_a_name_that_a_catalog_does_not_take_is_a_mistake(table: str, untaken: list[str]) -> None:
    """Of routed tables too; and an error before a table of a topic's name is created."""
    for tables in (f"table: '{table}'", f"table: l.t, route: {{by: id, tables: {{1: '{table}'}}}}"):
        found = []
        for catalog in (GLUE, UNITY, GOOGLE, OTHER):
            text = f"catalog: {catalog}\npipelines: {{a: {{topic: a, {tables}}}}}"
            document, _ = parse_document("sluice.yaml", f"version: 1\n{text}")
            problems = build_config(document, (), home="/home/.sluice", folder="/home").problems
            found += [str(each) for each in problems]
        assert len(found) == len(untaken)
        assert all(
            f"is not a name that {name} takes" in said for name, said in zip(untaken, found, strict=True)
        )
    refused = []
    for catalog in (GLUE, UNITY, GOOGLE, OTHER):
        try:
            refuse_untaken(catalog, table.replace("{topic}", "t"))
        except ConfigError as error:
            refused.append(error.message.removesuffix(" does not take this name"))
    assert refused == untaken


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("https://s3tables.eu-central-1.amazonaws.com/iceberg", True),
        ("https://glue.us-east-1.amazonaws.com/iceberg", True),
        ("https://s3tables-fips.us-gov-west-1.api.aws/iceberg", True),
        ("https://s3tables.cn-north-1.amazonaws.com.cn/iceberg", True),
        ("https://catalog.example.com/s3tables.eu-central-1.amazonaws.com", False),
        (OTHER["uri"], False),
    ],
)
def test_a_catalog_that_creates_no_table_with_a_snapshot_is_refused(
    address: str, *, is_refused: bool
) -> None:
    """By ``check`` and a first drain, before anything is sent that changes the catalog."""
    asked = []

    def load_table(name: str) -> None:
        asked.append(name)
        raise NoSuchTableError(name)

    catalog = cast("Catalog", SimpleNamespace(properties={"uri": address}, load_table=load_table))
    pipeline = PipelineConfig.model_validate({"name": "p", "topic": "t", "table": "l.orders"})
    if not is_refused:
        assert check_steps._table(catalog, pipeline) == ((None,), "l.orders does not exist yet")
        return
    for refuse in (
        lambda: check_steps._table(catalog, pipeline),
        lambda: create_dead_letter_table(catalog, "l.orders", {}, Progress("t", 0, {})),
    ):
        with pytest.raises(ConfigError, match="documents no staged creation") as caught:
            refuse()
        assert (caught.value.code, "type: glue" in caught.value.hint) == ("catalog-creates-in-steps", True)
    assert asked == ["l.orders", "l.orders_dead_letters"]
