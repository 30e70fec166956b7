"""How the landed tables are read: one query with its answer, and three snippets that work as printed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from servers.jars import jar_paths
from servers.java import java_home
from spark_jobs.lake.catalog_names import spark_catalog_conf

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

EXAMPLE_QUESTION = "Which carriers left latest, on average?"
EXAMPLE_QUERY = """\
SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay_minutes
FROM flights GROUP BY carrier ORDER BY mean_delay_minutes DESC LIMIT 5"""


def run_example(table: Table) -> pa.Table:
    """Return what DuckDB answers to the example query over PyIceberg's scan of the flights table."""
    import duckdb

    scan = table.scan(selected_fields=("carrier", "dep_delay")).to_arrow_batch_reader()
    with duckdb.connect() as connection:
        connection.register("flights", scan)
        return connection.sql(EXAMPLE_QUERY).to_arrow_table()


def snippets(catalog_name: str, properties: Mapping[str, str], table: str) -> dict[str, str]:
    """By reader, what a person pastes; ``properties`` are the catalog's under PyIceberg's names."""
    load = _load_catalog(catalog_name, properties)
    return {
        "DuckDB (Python)": "\n".join(
            [
                "import duckdb",
                *load,
                f'rows = catalog.load_table("{table}").scan().to_arrow_batch_reader()',
                'print(duckdb.sql("SELECT count(*) FROM rows"))',
            ]
        ),
        "PyIceberg": "\n".join([*load, f'print(catalog.load_table("{table}").scan(limit=5).to_arrow())']),
        "Spark SQL (shell)": _spark_sql(catalog_name, properties, table),
    }


def _load_catalog(name: str, properties: Mapping[str, str]) -> list[str]:
    arguments = ", ".join(f'"{key}": "{value}"' for key, value in properties.items())
    return [
        "from pyiceberg.catalog import load_catalog",
        f'catalog = load_catalog("{name}", **{{{arguments}}})',
    ]


def _spark_sql(name: str, properties: Mapping[str, str], table: str) -> str:
    """Spark's own shell from this environment: it is on nobody's PATH and needs a Java it starts on."""
    shell = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    jars = ",".join(str(path) for path in jar_paths("spark"))
    settings = [f"--conf {key}={value}" for key, value in spark_catalog_conf(name, properties).items()]
    start = [f"JAVA_HOME={java_home()}", f"{shell} --master 'local[2]'", f"--jars {jars}"]
    query = f"SELECT count(*) FROM {name}.{table}"  # noqa: S608  (printed, not run)
    return " \\\n  ".join([*start, *settings, f'-e "{query}"'])
