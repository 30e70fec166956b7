"""Functions that a query may call: each one that DuckDB has was judged, and the others are refused."""

from __future__ import annotations

import duckdb
import pytest

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.query.query import check_functions, judged

PIPELINE = PipelineConfig(name="one", topic="t", table="shop.t")


def test_every_function_that_duckdb_has_was_judged() -> None:
    """A new DuckDB's are in neither list: judge them, and write them into judged_functions.txt."""
    run, refused = judged()
    with duckdb.connect() as engine:
        names = {
            name.lower() for (name,) in engine.sql("SELECT function_name FROM duckdb_functions()").fetchall()
        }
    assert (names - run - refused, (run | refused) - names, run & refused) == (set(), set(), set())


@pytest.mark.parametrize(
    "sql",
    [
        "FROM query('SELECT 1')",
        "FROM Query_Table('t')",
        "SELECT * FROM destroy_external_resource('query', 'x')",
        "FROM register_external_resource_type('x')",
        "SELECT 1 FROM system.main.read_text('/etc/passwd')",
        "SELECT (SELECT 'x'.write_log())",
        "WITH a AS (FROM glob('*')) SELECT 1",
        "FROM arrow_scan(1, 2, 3)",
        "SELECT list_transform([1], lambda x: sleep_ms(x))",
        "SELECT 1; FROM query('SELECT 1')",
        "EXPLAIN ANALYZE FROM \"query\"/**/ ('SELECT 1')",
        "EXPLAIN FROM query\n('SELECT 1')",
        "PIVOT (FROM query -- it\n('SELECT 1 AS a')) ON a USING count(*)",
        "DESCRIBE FROM query('SELECT 1')",
        "SELECT no_such_function(1)",
    ],
)
def test_a_function_that_was_not_judged_to_compute_is_refused(sql: str) -> None:
    """Wherever it stands, however its name is written."""
    with (
        duckdb.connect() as engine,
        pytest.raises(ConfigError, match="is not allowed") as refused,
    ):
        check_functions(engine, sql, PIPELINE)
    assert refused.value.code == "query-refused"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT city, count(*), sum(quantity) FILTER (quantity > 1) FROM t GROUP BY ALL ORDER BY 2 DESC",
        "SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) FROM t QUALIFY row_number() OVER () < 3",
        "SELECT a ->> '$.b', a.b.c, a[1:2], {'x': 1}, MAP {'a': 1}, a LIKE 'b%', a ~ 'x', a || 'y' FROM t",
        "SELECT extract(year FROM at), at::DATE + INTERVAL 1 DAY, at AT TIME ZONE 'UTC', current_date FROM t",
        "SELECT [x + 1 FOR x IN [1, 2]], list_aggr([1], 'sum'), unnest([1]), CASE WHEN a THEN 1 END FROM t",
        "PIVOT t ON a USING count(*)",
        "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE a IN (1, 2)",
        "SUMMARIZE t",
        'SELECT \'query(\' AS "function_name", \'"function_name":"query"\' FROM range(3) AS query(i)',
        "SELECT histogram(a), approx_quantile(a, 0.5), arg_max(a, b), string_agg(a, ',') FROM t SAMPLE 10%",
        "",
    ],
)
def test_what_computes_is_run(sql: str) -> None:
    """Aggregates, windows, JSON, times, lists, and operators, which are functions too."""
    with duckdb.connect() as engine:
        check_functions(engine, sql, PIPELINE)
