"""Final report of the demo: audit, counts, an example query, code snippets and locations."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from cli import output
from cli.work import connections_for, verdict
from servers.environment import java_home
from servers.jars import jar_paths
from spark_jobs.audit.audit import audit
from spark_jobs.audit.counts import AuditResult
from spark_jobs.books.history import lines_of
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.connect import open_catalog
from spark_jobs.lake.catalog import released
from spark_jobs.lake.catalog_names import spark_catalog_conf
from spark_jobs.lake.tables import load_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections

EXAMPLE_TABLE = "lake.flights"
EXAMPLE_QUESTION = "Which carriers left latest, on average?"
EXAMPLE_QUERY = """\
SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay_minutes
FROM flights GROUP BY carrier ORDER BY mean_delay_minutes DESC LIMIT 5"""


def run_example(table: Table) -> pa.Table:
    """Return DuckDB's answer to the example query over a PyIceberg scan of the flights table."""
    import duckdb

    scan = table.scan(selected_fields=("carrier", "dep_delay")).to_arrow_batch_reader()
    with duckdb.connect() as connection:
        connection.register("flights", scan)
        return connection.sql(EXAMPLE_QUERY).to_arrow_table()


def snippets(catalog_name: str, properties: Mapping[str, str], table: str) -> dict[str, str]:
    """Return a code snippet per reader; ``properties`` are the catalog's under PyIceberg's names."""
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
    """Return a command for Spark's own shell in this environment, with a suitable Java."""
    shell = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    jars = ",".join(str(path) for path in jar_paths("spark"))
    settings = [f"--conf {key}={value}" for key, value in spark_catalog_conf(name, properties).items()]
    # By itself the shell makes a metastore of its own in the folder where it is started.
    no_metastore = "--conf spark.sql.catalogImplementation=in-memory"
    start = [f"JAVA_HOME={java_home()}", f"{shell} --master 'local[2]'", f"--jars {jars}", no_metastore]
    query = f"SELECT count(*) FROM {name}.{table}"  # noqa: S608  (printed, not run)
    return " \\\n  ".join([*start, *settings, f'-e "{query}"'])


JSON_FIELDS = (
    *("pipeline", "topic", "table", "records", "rows", "dead_letters", "tombstones"),
    *("missing", "duplicates", "snapshots", "lag"),
)


@dataclass(frozen=True, slots=True)
class Landed:
    """Totals of all landed batches of a table; ``busy_ms`` is their time from log to commit."""

    batches: int
    offsets: int
    file_bytes: int
    busy_ms: int
    location: str


@dataclass(frozen=True, slots=True)
class Audited:
    """Audit result and landed batches of one pipeline; ``landed`` is None without a table."""

    result: AuditResult
    landed: Landed | None


def audit_all(config: SluiceConfig) -> list[Audited]:
    """Audit every pipeline while Kafka runs, and print how long each took."""
    return [_audit_one(config, pipeline) for pipeline in config.pipelines]


def to_json(audited: list[Audited]) -> dict[str, object]:
    """Return the fields of the ``--json`` object."""
    return {"pipelines": [output.fields(one.result, *JSON_FIELDS) for one in audited]}


def print_report(config: SluiceConfig, audited: list[Audited], typed: str) -> None:
    """Print the report once the servers are stopped; ``typed`` runs Sluice on its state."""
    output.heading("Result")
    _print_landed(audited)
    output.heading(EXAMPLE_QUESTION)
    _print_example(config)
    output.heading("Three ways to read the table")
    _print_snippets(config)
    output.heading("Locations")
    rows = [(f"table {one.result.table}", one.landed.location if one.landed else "-") for one in audited]
    output.table(
        ("what", "where"),
        [*rows, ("catalog", config.catalog.properties["uri"]), ("logs", f"{config.home}/logs")],
    )
    output.say(f"\nNext: {typed} up keeps all of this running, with a live stream and Dagster's UI.")


def _audit_one(config: SluiceConfig, pipeline: PipelineConfig) -> Audited:
    began = time.monotonic()
    with connections_for(config, pipeline, "audit") as connections:
        result = audit(pipeline, connections)
        with released(connections.open_catalog()) as catalog:
            table = load_table(catalog, pipeline.table)
            landed = _landed(table, connections) if table is not None else None
    took = output.seconds((time.monotonic() - began) * 1000)
    output.say(f"  {pipeline.name}: {verdict(result)} ({took})")
    return Audited(result, landed)


def _landed(table: Table, connections: Connections) -> Landed:
    landed = [line.entry for line in lines_of(table, connections) if line.entry.is_landed]
    return Landed(
        batches=len(landed),
        offsets=sum(entry.ranges.records for entry in landed),
        file_bytes=sum(entry.counts.file_bytes for entry in landed),
        busy_ms=sum(sum(entry.durations_ms.values()) for entry in landed),
        location=table.location(),
    )


def _print_landed(audited: list[Audited]) -> None:
    numbers = (
        *("records", "rows", "dead letters", "tombstones", "missing", "duplicates"),
        *("batches", "lag", "records/s", "MB"),
    )
    rows = []
    for one in audited:
        result, landed = one.result, one.landed
        # While a batch was under way; nothing without one.
        speed = round(landed.offsets * 1000 / landed.busy_ms) if landed and landed.busy_ms else None
        rows.append(
            (
                *(result.pipeline, result.records, result.rows, result.dead_letters, result.tombstones),
                *(result.missing, result.duplicates, landed.batches if landed else 0),
                *(result.lag, speed, round(landed.file_bytes / 1e6, 1) if landed else None),
            )
        )
    output.table(("pipeline", *numbers), rows, numbers=numbers)


def _print_example(config: SluiceConfig) -> None:
    with released(open_catalog(config)) as catalog:
        table = load_table(catalog, EXAMPLE_TABLE)
        if table is None:
            return
        answer = run_example(table)
    output.say(EXAMPLE_QUERY + "\n")
    columns = answer.column_names
    output.table(
        columns, [tuple(row.values()) for row in answer.to_pylist()], numbers=columns[1:], is_data=True
    )


def _print_snippets(config: SluiceConfig) -> None:
    output.say(f"Python interpreter: {sys.executable}")
    for reader, text in snippets(config.catalog.name, config.catalog.properties, EXAMPLE_TABLE).items():
        output.say(f"\n# {reader}", text)
