"""How the landed tables are read: one query with its answer, and three snippets that work as printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table

EXAMPLE_QUESTION = "Which carriers left latest, on average?"
EXAMPLE_QUERY = """\
SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay_minutes
FROM flights GROUP BY carrier ORDER BY mean_delay_minutes DESC LIMIT 5"""


@dataclass(frozen=True, slots=True)
class Answer:
    """A query's columns and rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def run_example(table: Table) -> Answer:
    """Run the example query with DuckDB over PyIceberg's scan of the flights table."""
    import duckdb  # noqa: PLC0415  (takes a while to load)

    scan = table.scan(selected_fields=("carrier", "dep_delay")).to_arrow_batch_reader()
    with duckdb.connect() as connection:
        connection.register("flights", scan)
        result = connection.execute(EXAMPLE_QUERY)
        columns = tuple(column[0] for column in result.description or ())
        return Answer(columns, tuple(tuple(row) for row in result.fetchall()))


def snippets(
    catalog_name: str,
    properties: Mapping[str, str],
    table: str,
    spark_conf: Mapping[str, str],
    jars: Sequence[str],
) -> dict[str, str]:
    """By reader, what a person pastes; ``properties`` are PyIceberg's names, ``spark_conf`` Spark's."""
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
        "Spark SQL (shell)": _spark_sql(catalog_name, table, spark_conf, jars),
    }


def _load_catalog(name: str, properties: Mapping[str, str]) -> list[str]:
    arguments = ", ".join(f'"{key}": "{value}"' for key, value in properties.items())
    return [
        "from pyiceberg.catalog import load_catalog",
        f'catalog = load_catalog("{name}", **{{{arguments}}})',
    ]


def _spark_sql(name: str, table: str, conf: Mapping[str, str], jars: Sequence[str]) -> str:
    settings = [f"--conf {key}={value}" for key, value in conf.items()]
    lines = ["spark-sql --master 'local[2]'", f"--jars {','.join(jars)}", *settings]
    return " \\\n  ".join([*lines, f'-e "SELECT count(*) FROM {name}.{table}"'])  # noqa: S608  (printed, not run)
