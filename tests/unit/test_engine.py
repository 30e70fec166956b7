"""One DuckDB for many queries: each ends when its time is over and leaves nothing behind."""

from __future__ import annotations

import time
from contextlib import closing, suppress

import duckdb
import pytest

from spark_jobs.query.query import Engine

ENDLESS = "SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)"


def test_a_query_whose_time_was_over_before_it_began_is_ended() -> None:
    """DuckDB forgets an interrupt that comes while nothing runs."""
    with closing(Engine()) as engine, engine.connection(0.0) as (own, is_over, _):
        time.sleep(0.02)
        began = time.monotonic()
        with pytest.raises(duckdb.InterruptException):
            own.sql(ENDLESS).fetchall()
        assert is_over.is_set()
        assert time.monotonic() - began < 5


def test_no_catalog_is_left_of_a_query_that_was_ended_or_failed() -> None:
    """Whatever it was in the middle of."""
    with closing(Engine()) as engine:
        for seconds, sql in ((0.05, ENDLESS), (5.0, "SELECT error('no')"), (5.0, "FROM range(10000000)")):
            with engine.connection(seconds) as (own, _, _):
                own.execute("BEGIN TRANSACTION READ ONLY")
                with suppress(duckdb.Error, OSError):
                    own.sql(sql).to_arrow_reader(1000).read_next_batch()
        with engine.connection(None) as (own, _, _):
            there = own.sql("SELECT database_name FROM duckdb_databases() WHERE NOT internal").fetchall()
    assert len(there) == 2, there


def test_what_was_prepared_is_for_queries_of_the_same_key_while_nobody_has_it() -> None:
    """Not for others, not for two at once, and not after one that was ended in the middle of something."""
    key, other = object(), object()
    with closing(Engine()) as engine:
        with engine.connection(None, key) as (own, _, prepared):
            own.execute("CREATE TEMP VIEW v AS SELECT 1 AS one")
            prepared["v"] = True
        with engine.connection(None, other) as (_, _, none):
            assert not none
        with engine.connection(0.2, key) as (own, _, prepared), suppress(duckdb.Error):
            assert own.sql("FROM v").fetchall() == [(1,)]
            for wanted in (key, other, None):
                with engine.connection(0.0, wanted) as (_, is_over, none):
                    assert not none
                    assert is_over.wait(5)
            assert prepared
            own.sql(ENDLESS).fetchall()
        assert not [each for each in engine._idle if each.prepared]
