"""Which of DuckDB's functions a query may call: those that read what they are given and no more.

They stand in a file, beside those that were refused: some run SQL that is a text, read files or memory, or
leave behind what the next one meets. A name that is in neither is a new DuckDB's, and nobody's yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import fault

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FILE = Path(__file__).with_suffix(".txt")
# In the tree a text's own quotes are escaped, so that nothing in it looks like this.
_CALLED = re.compile(r'"function_name":"([^"]*)"')


def check_functions(engine: DuckDBPyConnection, sql: str, pipeline: PipelineConfig) -> None:
    """Refuse a statement that calls another. Raises ``ConfigError`` (``query-refused``)."""
    run, refused = judged()
    (tree,) = engine.execute("SELECT json_serialize_sql(?)", [sql]).fetchone() or ("",)
    if tree.startswith('{"error":true'):  # of EXPLAIN, and of PIVOT without IN, there is none
        wrong = next((name for name in _named_in(sql) if name in refused), None)
    else:
        wrong = next((name for name in map(str.lower, _CALLED.findall(tree)) if name not in run), None)
    if wrong is not None:
        raise fault("query-refused.function", wrong=wrong, pipeline=pipeline.name)


@cache
def judged() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of those that are run, and of those that are not."""
    run, _, refused = _FILE.read_text("utf-8").removeprefix("# run\n").partition("# refused\n")
    return frozenset(run.splitlines()), frozenset(refused.splitlines())


def _named_in(sql: str) -> Iterator[str]:
    """What stands before a parenthesis, and may be a function's name."""
    sent = sql.encode()
    tokens = [(at, kind) for at, kind in duckdb.tokenize(sql) if kind is not duckdb.token_type.comment]
    for (at, _), (behind, _) in pairwise(tokens):
        if sent[behind : behind + 1] == b"(":
            yield re.split(r"\s|/\*|--", sent[at:behind].decode().lower())[0].strip('"')
