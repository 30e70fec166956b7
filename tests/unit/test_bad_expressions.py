"""A thousand expressions that may not be evaluated: each is refused where it stands, with a reason."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import yaml

from spark_jobs.config.build import build_config
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.file import parse_document
from spark_jobs.expressions import engine
from spark_jobs.expressions.judging import judge

if TYPE_CHECKING:
    from spark_jobs.config.problems import ConfigProblem

UNSTABLE = [
    *("now()", "today()", "random()", "uuid()", "gen_random_uuid()", "nextval('s')", "currval('s')"),
    *("current_setting('TimeZone')", "getvariable('x')", "current_query()", "txid_current()", "ago(a)"),
    *("current_date", "CURRENT_TIMESTAMP", "localtime", "current_user", "age(CAST(a AS TIMESTAMP))"),
    *("_ingested_at", "_INGESTED_AT", '"_ingested_at"', "error('x')", "write_log('x')", "sleep_ms(1)"),
    *("setseed(0.5)", "transaction_timestamp()", "in_search_path('a', 'b')", "pg_sleep(1)", "getenv('HOME')"),
]
MANY_RECORDS = [
    *("(SELECT 1)", "a IN (SELECT 1)", "EXISTS (SELECT 1)", "a = ANY (SELECT 1)", "(FROM t)", "(VALUES (1))"),
    *("sum(n)", "count(*)", "array_agg(a)", "first(a)", "string_agg(a, ',')", "max(n)", "median(n)"),
    *("row_number() OVER ()", "lag(a) OVER ()", "sum(n) OVER ()", "rank() OVER (ORDER BY n)"),
    *("sum(n) FILTER (WHERE n > 1)", "count(DISTINCT a)", "list(a ORDER BY n)", "grouping(a)"),
    *("unnest([1, 2])", "list_aggregate([n], 'reservoir_quantile')"),
]
OUTSIDE = [
    *("read_csv('/etc/passwd')", "read_text('/etc/passwd')", "read_parquet('s3://a/b')", "glob('*')"),
    *("query('SELECT 1')", "query_table('t')", "duckdb_settings()", "pragma_version()", "parquet_scan('x')"),
    *("system.main.abs(n)", "main.now()", "nosuch(a)", "getenv('PATH')", "sqlite_scan('a', 'b')"),
]
NO_EXPRESSION = [
    *("*", "a.*", "COLUMNS('a')", "COLUMNS(*)", "?", "$1", "$name", "#1", "DEFAULT", "a, n", "a AS b", ""),
    *(
        "a FROM t",
        "1; DROP TABLE t",
        "1) , (2",
        "1)); SELECT ((1",
        "a +",
        "(a",
        "a)",
        "'a",
        "/*",
        "/* */",
        "-- a",
    ),
    *("list_transform([n], x -> x)", "list_filter([n], lambda x: x > 1)", "[x FOR x IN [n]]", "a -> '$.b'"),
    *(
        "a := 1",
        "SELECT a",
        "CREATE TABLE t (a INT)",
        "COPY t TO 'x'",
        "ATTACH 'x'",
        "SET x = 1",
        "INSTALL httpfs",
    ),
    *("_kafka_nothing", '"sluice chunk".n', "A || a"),
]
CONTEXTS = [
    *("{}", "({})", "coalesce({}, n)", "n + {}", "{} IS NULL", "CASE WHEN {} THEN 1 END", "upper({})"),
    *(
        "CASE WHEN n > 1 THEN n ELSE {} END",
        "n IN (1, {})",
        "n BETWEEN 1 AND {}",
        "CAST({} AS VARCHAR)",
        "NOT {}",
    ),
    *("[{}]", "{{'k': {}}}", "a || {}", "TRY({})", "list_contains([n], {})"),
]


def _generated() -> list[str]:
    inside = [*UNSTABLE, *MANY_RECORDS, *OUTSIDE]
    every = [context.format(bad) for bad in inside for context in CONTEXTS]
    whole = [*NO_EXPRESSION, *(f"a IS NULL OR {bad}" for bad in NO_EXPRESSION if not bad.startswith("--"))]
    picked = random.Random(17).sample(every, 1000 - len(whole))
    return [*whole, *picked]


def _problems(pipeline: dict[str, Any]) -> tuple[list[ConfigProblem], list[str]]:
    content = {"version": 1, "pipelines": {"p": {"topic": "t", "table": "lake.t", **pipeline}}}
    text = yaml.safe_dump(content, sort_keys=False, width=10_000)
    document, wrong = parse_document("sluice.yaml", text)
    assert document is not None, wrong
    built = build_config(document, (), home="/h", folder="/f", judge=judge_expressions)
    return [*built.problems], text.splitlines()


def test_a_thousand_bad_expressions_are_refused() -> None:
    """Each by its key and line, with a reason and a hint; as a column's and as a filter alike."""
    bad = _generated()
    assert len(bad) >= 1000
    columns: dict[str, Any] = {"a": "string", "n": "long"}
    columns |= {f"c{number}": {"type": "string", "sql": each} for number, each in enumerate(bad)}
    problems, lines = _problems({"columns": columns})
    found = {problem.key: problem for problem in problems}
    missed = [each for number, each in enumerate(bad) if f"pipelines.p.columns.c{number}.sql" not in found]
    assert missed == []
    for number in range(len(bad)):
        problem = found[f"pipelines.p.columns.c{number}.sql"]
        assert problem.line is not None
        assert f"c{number}:" in " ".join(lines[problem.line - 3 : problem.line]), problem
        assert problem.message
        assert problem.hint
    for each in random.Random(3).sample(bad, 30):
        problems, lines = _problems({"columns": {"a": "string", "n": "long"}, "filter": each or " "})
        (problem,) = problems
        assert (problem.key, "filter" in lines[(problem.line or 0) - 1]) == ("pipelines.p.filter", True)


def test_what_goes_together_with_the_declared_types_is_told_by_its_type() -> None:
    """A result the column does not take, a column of another expression, a filter that is no condition."""
    declared = {"amount": "decimal(12,2)", "n": "long", "price": "double", "seen": "timestamptz"}
    wrong = {
        "amount * n": ("string", "gives decimal128(31, 2), and the column is string"),
        "price * 2": ("decimal(12,2)", "gives double"),
        "seen": ("date", "gives timestamp[us, tz=UTC]"),
        "amount || n + seen": ("string", "No function matches"),
        "other": ("long", "refers to other, which is the column of another expression"),
        "CAST('x' AS INTEGER)": ("int", "Could not convert string 'x'"),
        "INTERVAL 1 DAY": ("string", "gives month_day_nano_interval"),
    }
    columns: dict[str, Any] = {**declared, "other": {"type": "long", "sql": "n"}}
    columns |= {f"c{i}": {"type": kind, "sql": sql} for i, (sql, (kind, _)) in enumerate(wrong.items())}
    problems, _ = _problems({"columns": columns, "filter": "amount + 1"})
    told = {problem.key.split(".")[-2]: problem.message for problem in problems}
    for i, (_, reason) in enumerate(wrong.values()):
        assert reason in told[f"c{i}"]
    assert "gives decimal128" in told["p"]


def test_a_number_with_a_comma_of_csv_is_a_column_of_another_name() -> None:
    """As reference/formats.md has it: such a field has the column of its name, which no expression can be."""
    csv = {"value": {"format": "csv", "columns": ["id", "price"]}}
    page = Path("docs", "reference", "formats.md").read_text()
    (line,) = re.findall(r"`(amount: \{type: .+?\})`", page)
    assert not _problems({**csv, "columns": yaml.safe_load(line)})[0]
    own = {"price": {"type": "decimal(10, 2)", "sql": "replace(price, ',', '.')"}}
    (problem,), _ = _problems({**csv, "columns": own})
    assert "Rename the expression's column" in (problem.hint or "")


def test_what_is_for_json_alone_says_so() -> None:
    """A path on Avro comes with its SQL; an archive has every record."""
    avro = {"value": {"format": "avro", "file": "x.avsc"}}
    columns = {
        "who": {"type": "string", "jmespath": "customer.name"},
        "all": {"type": "string", "from": "json"},
        "day": {"type": "date", "from": "text"},
        "n": {"type": "long", "sql": "CAST(n AS BIGINT)"},
    }
    problems, _ = _problems({"columns": columns, **avro})
    told = {problem.key: f"{problem.message} {problem.hint}" for problem in problems}
    assert [*told] == [f"pipelines.p.columns.{key}" for key in ("who.jmespath", "all.from", "n.sql")]
    assert 'sql: "customer.name"' in told["pipelines.p.columns.who.jmespath"]
    problems, _ = _problems({"layout": "archive", "filter": "true"})
    assert [problem.key for problem in problems] == ["pipelines.p.filter"]


@pytest.mark.parametrize(
    ("settings", "key", "reason"),
    [
        ({"route": {"by": "n + now()", "tables": {"a": "l.a"}}}, "route.by", "does not return the same"),
        ({"route": {"by": "n * 0.5", "tables": {"a": "l.a"}}}, "route.by", "gives decimal128"),
        ({"route": {"by": "n"}}, "route", "has no tables"),
        ({"route": {"tables": {"1": "l.a"}}}, "route", "has no by"),
        ({"route": {"by": "n", "tables": {"1": "nowhere"}}}, "route.tables.1", "is not a valid table name"),
        ({"route": {"by": "n", "tables": {"1": "lake.T"}}}, "route.tables.1", "is the pipeline's own"),
        (
            {"route": {"by": "n", "tables": {"1": "l.a", "2": "lake.t_dead_letters"}}},
            "route.tables.2",
            "is the pipeline's dead-letter table",
        ),
        (
            {"layout": "archive", "columns": {}, "route": {"by": "_kafka_partition", "tables": {"1": "l.a"}}},
            "route",
            "does not apply to an archive",
        ),
    ],
)
def test_a_route_that_leads_nowhere_is_refused(settings: dict[str, Any], key: str, reason: str) -> None:
    """By its expression, its tables, and what it is said of."""
    problems, _ = _problems({"columns": {"n": "long"}, **settings})
    assert [problem.key for problem in problems] == [f"pipelines.p.{key}"]
    assert reason in problems[0].message


@pytest.mark.parametrize(
    "sql",
    ["FROM read_csv('/etc/passwd')", "INSTALL httpfs", "SET TimeZone = 'Asia/Tokyo'", "ATTACH '/tmp/x.db'"],
)
def test_the_engine_is_shut_in(sql: str) -> None:
    """What was judged wrongly could still read no file, load no extension and change no setting."""
    with pytest.raises(duckdb.Error, match=r"ermission|disabled|locked"):
        engine.run(sql)


def test_what_was_judged_is_what_is_evaluated() -> None:
    """The text that is evaluated is the tree's: judged again it is itself, and a comment is gone."""
    good = [
        *("amount * n -- twice", "a IN ('x', 'y') AND NOT n > 1", "CASE WHEN a LIKE 'x%' THEN n END"),
        *("CAST(a AS DECIMAL(12, 2)) * 2", "split_part(a, ',', 2)", "list_sum([n, 2])", "s.inner.deep"),
        *(
            "extract(year FROM seen)",
            "a ~ '^[a-z]+$'",
            "coalesce(a, 'x') || upper(\"user\")",
            "age(seen, seen)",
        ),
        *(
            "json_extract_string(a, '$.b')",
            "{'k': n}",
            "n[1:2]",
            "seen AT TIME ZONE 'UTC'",
            "a COLLATE NOCASE",
        ),
    ]
    for text in good:
        once = judge(text)
        assert judge(once.sql) == once
        assert "--" not in once.sql
