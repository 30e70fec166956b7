"""SQL over a pipeline's table and its dead letters: planned by PyIceberg, streamed into DuckDB.

With a prefix, records that are only in Kafka are in the same two tables, and a third one has the watermark.
Only read-only statements run, in a DuckDB without access to anything else.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, StatementType
from pyiceberg.expressions import AlwaysTrue

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.prefix import Seam, load_seam
from spark_jobs.lake.moments import Moment
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.query.duckdb_source import DEAD_LETTERS, WATERMARK, beside_hot, registered

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.prefix import Prefix


# A DuckDB that reads what it is handed and nothing else, for one query after the other or some at once.
#
# It is empty and shut in: it opens no file and no connection and loads no extension. What it needs beyond its
# memory lies in a temporary folder until it is closed. Opening one takes ten times as long as a small query:
# so all queries of a process share one, each with a catalog and temporary views of its own. Making these
# takes as long as a small query again: the next query over the same tables has those of one that has ended.


MEMORY_BYTES = 1_000_000_000
_AGAIN_SECONDS = 0.05
_MOST_IDLE = 8


@dataclass(slots=True, eq=False)
class _Own:
    """A connection with its own catalog, and the objects prepared in it for queries with this key."""

    own: DuckDBPyConnection
    name: str
    key: object
    prepared: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        with self.own, suppress(duckdb.Error):
            self.own.execute(f"USE memory; DETACH {self.name}")


class Engine:
    """A DuckDB instance; all its queries together may use ``memory_bytes``. Thread-safe."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._closing = ExitStack()
        folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="sluice-query-"))
        self._whole = self._closing.enter_context(duckdb.connect(config=_shut_in(folder, memory_bytes)))
        self._whole.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL python_enable_replacements = false")
        self._whole.execute("SET lock_configuration = true")
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._ends: set[Callable[[], None]] = set()
        self._idle: deque[_Own] = deque()

    def close(self) -> None:
        """Stop all queries and free the memory."""
        self.end_all()
        while self._idle:
            self._idle.popleft().close()
        self._closing.close()

    @contextmanager
    def connection(
        self, seconds: float | None, key: object = None
    ) -> Iterator[tuple[DuckDBPyConnection, threading.Event, dict[str, Any]]]:
        """Yield a connection for one query; only what the query prepares for a ``key`` outlives it.

        That is the content of the dictionary, and the views and tables that it refers to: the next query with
        the same object as key may get them. After ``seconds`` the query is interrupted and the event is set;
        None means never, except by ``end_all``.
        """
        mine = self._idle_of(key) or self._new(key)
        is_kept = False
        try:
            with self._timed(mine.own, seconds) as is_over:
                yield mine.own, is_over, mine.prepared
                is_kept = key is not None and not is_over.is_set()
        finally:
            with suppress(duckdb.Error):
                mine.own.execute("ROLLBACK")  # within a transaction a catalog stays
            if is_kept:
                self._release(mine)
            else:
                mine.close()

    def _new(self, key: object) -> _Own:
        with self._lock:
            mine = _Own(self._whole.cursor(), f"query_{next(self._numbers)}", key)
        mine.own.execute(f"ATTACH ':memory:' AS {mine.name}; USE {mine.name}")
        return mine

    def _idle_of(self, key: object) -> _Own | None:
        with self._lock:
            found = next((each for each in self._idle if each.key is key), None)
            if found is not None:
                self._idle.remove(found)
            return found

    def _release(self, mine: _Own) -> None:
        with self._lock:
            self._idle.append(mine)
            longest_idle = self._idle.popleft() if len(self._idle) > _MOST_IDLE else None
        if longest_idle is not None:
            longest_idle.close()

    def end_all(self) -> None:
        """Interrupt every query."""
        for end in tuple(self._ends):
            end()

    @contextmanager
    def _timed(self, own: DuckDBPyConnection, seconds: float | None) -> Iterator[threading.Event]:
        is_over, is_done, is_woken = threading.Event(), threading.Event(), threading.Event()

        def end() -> None:
            is_over.set()
            is_woken.set()

        def watch() -> None:
            if not is_woken.wait(seconds):
                is_over.set()
            # DuckDB forgets one that comes before a statement has begun.
            while is_over.is_set() and not is_done.is_set():
                with suppress(duckdb.Error):
                    own.interrupt()
                is_done.wait(_AGAIN_SECONDS)

        watching = threading.Thread(target=watch, name="query-time", daemon=True)
        self._ends.add(end)
        watching.start()
        try:
            yield is_over
        finally:
            self._ends.discard(end)
            is_done.set()
            is_woken.set()
            watching.join()  # a connection that is closed must not be interrupted


def _shut_in(folder: str, memory_bytes: int) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": folder,
    }


def files_away(error: Exception, pipeline: PipelineConfig) -> SluiceError:
    """Return the error for a table whose manifests or data files cannot be read."""
    return fault("table-unreadable.files", why=first_line(error), owner=pipeline.name, table=pipeline.table)


def first_line(error: Exception) -> str:
    """Return the message of DuckDB or Arrow, without its position in the source code."""
    return str(error).split(". Detail: ")[0].splitlines()[0]


# Questions, and their answers.


ROWS_A_BATCH = 10_000
PARAMETERS = b"parameters"
_JUDGED = Path(__file__).with_name("judged_functions.txt")
# In the tree a text's own quotes are escaped, so that nothing in it looks like this.
_CALLED = re.compile(r'"function_name":"([^"]*)"')
# DuckDB's messages when memory is not enough, and when a table's own stream raised an error.
_OUT_OF_MEMORY = "Out of Memory Error"
_READ_FAILED = "reading the stream registered as"
_OF_THE_QUERY = re.compile(r"(?!IO )[A-Z][A-Za-z ]* Error: ")
# PIVOT is several statements in one.
_READS = {StatementType.SELECT, StatementType.EXPLAIN, StatementType.MULTI}
# SHOW TABLES lists the tables without the internal ones.
_LISTED = re.compile(r"^\s*SHOW\s+TABLES\s*;?\s*$", re.IGNORECASE)
_TABLES = "SELECT name FROM (SHOW TABLES) WHERE NOT ends_with(name, ' in files')"


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """SQL over a pipeline's tables; ``parameters`` are the values of its question marks.

    With ``columns_only`` the answer has columns and no rows, for any parameters, and its schema has their
    number. Several statements, or one that returns nothing, have no columns.
    """

    pipeline: PipelineConfig
    sql: str
    parameters: Sequence[object] = ()
    columns_only: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query as they arrive; valid until the query is closed."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


@contextmanager
def query(
    pipeline: PipelineConfig,
    connections: Connections,
    sql: str,
    *,
    as_of: Moment | None = None,
    prefix: Prefix | None = None,
) -> Iterator[Answer]:
    """Run SQL over the table, its routed tables and ``dead_letters``: now, or as of a moment.

    With a ``prefix`` it runs over those records, lake and hot, and ``sluice_watermark`` has their watermark.
    Raises, also while rows are read: ``ConfigError`` (``query-refused`` for statements that DuckDB rejects,
    ``query-too-large``, ``no-table-yet``, ``no-history``, ``no-such-snapshot``), ``RetryableError`` if
    catalog or storage do not answer, and ``query-timeout``.
    """
    seam = load_seam(pipeline, connections) if prefix is None else prefix.seam
    with (
        closing(Engine()) as engine,
        answer_query(SqlQuery(pipeline, sql), seam, engine, as_of=as_of, prefix=prefix) as answer,
    ):
        yield answer


@contextmanager
def answer_query(
    asked: SqlQuery,
    seam: Seam,
    engine: Engine,
    *,
    as_of: Moment | None = None,
    prefix: Prefix | None = None,
    seconds: float | None = None,
) -> Iterator[Answer]:
    """Answer from a state of the lake, or from a prefix with that state; raises as ``query``.

    With parameters the query runs completely before its first row. ``seconds`` limits all of it, until its
    last row is read.
    """
    pipeline = asked.pipeline
    with ExitStack() as stack:
        is_whole = prefix is not None and not prefix.is_cut
        own, is_over, prepared = stack.enter_context(engine.connection(seconds, seam if is_whole else None))
        with _translated(pipeline, is_over):
            if not prepared:
                within = AlwaysTrue() if prefix is None else prefix.lake_filter
                prepared |= registered(own, pipeline, seam, within=within, as_of=as_of)
            if prefix is not None:
                own.register(WATERMARK, prefix.as_table())
                stack.enter_context(beside_hot(prepared, prefix, pipeline))
            answer = stack.enter_context(_start(own, asked))
        yield Answer(answer.schema, _translating(answer, pipeline, is_over))


def _start(engine: DuckDBPyConnection, asked: SqlQuery) -> pa.RecordBatchReader:
    sql, parameters = _LISTED.sub(_TABLES, asked.sql), list(asked.parameters)
    if asked.columns_only:
        parameters = [None] * sum(len(each.named_parameters) for each in engine.extract_statements(sql))
        sql = "\n".join(("SELECT * FROM (", sql.strip().rstrip(";"), ") LIMIT 0"))
    # A statement that is not a query could affect later queries.
    for statement in engine.extract_statements(sql):
        if statement.type not in _READS:
            raise fault("query-refused.statement", type=statement.type.name, pipeline=asked.pipeline.name)
    check_functions(engine, sql, asked.pipeline)
    # What reads by its type may have another in it: `EXPLAIN ANALYZE CREATE`, `WITH … AS (INSERT …)`.
    engine.execute("BEGIN TRANSACTION READ ONLY")
    relation = engine.sql(sql, params=parameters or None)
    if relation is None:  # DuckDB returns no relation for an empty text, without an error
        relation = engine.sql("SELECT")
    reader = relation.to_arrow_reader(ROWS_A_BATCH)
    if asked.columns_only:
        described = reader.schema.with_metadata({PARAMETERS: str(len(parameters))})
        return pa.RecordBatchReader.from_batches(described, ())
    return reader


def _translating(
    batches: pa.RecordBatchReader, pipeline: PipelineConfig, is_over: threading.Event
) -> Iterator[pa.RecordBatch]:
    with _translated(pipeline, is_over):
        yield from batches


@contextmanager
def _translated(pipeline: PipelineConfig, is_over: threading.Event) -> Iterator[None]:
    """Translate errors of DuckDB, of Arrow's stream and of the files behind it."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if is_over.is_set():
            raise fault("query-timeout", pipeline=pipeline.name) from error
        if _OUT_OF_MEMORY in str(error):
            raise fault("query-too-large", why=first_line(error), pipeline=pipeline.name) from error
        if _is_of_files(error):
            raise files_away(error, pipeline) from error
        every = (pipeline.table, *pipeline.routed_tables)
        ours = f"{', '.join(name.rpartition('.')[2] for name in every)} and {DEAD_LETTERS}"
        raise fault("query-refused", why=first_line(error), ours=ours) from error


def _is_of_files(error: Exception) -> bool:
    if isinstance(error, duckdb.IOException) or _READ_FAILED in str(error):
        return True
    # After the first rows DuckDB's errors arrive through Arrow's stream.
    return isinstance(error, OSError) and not _OF_THE_QUERY.match(str(error))


def check_functions(engine: DuckDBPyConnection, sql: str, pipeline: PipelineConfig) -> None:
    """Reject a statement that calls a function which does more than read its arguments.

    Raises ``ConfigError`` (``query-refused``).
    """
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
    """Return the names of DuckDB's allowed functions, and of its rejected ones.

    Rejected functions run SQL from text, read files or memory, or affect later queries. A name in neither set
    is from a newer DuckDB and not classified yet.
    """
    run, _, refused = _JUDGED.read_text("utf-8").removeprefix("# run\n").partition("# refused\n")
    return frozenset(run.splitlines()), frozenset(refused.splitlines())


def _named_in(sql: str) -> Iterator[str]:
    """Return the names before parentheses, which may be functions."""
    sent = sql.encode()
    tokens = [(at, kind) for at, kind in duckdb.tokenize(sql) if kind is not duckdb.token_type.comment]
    for (at, _), (behind, _) in pairwise(tokens):
        if sent[behind : behind + 1] == b"(":
            yield re.split(r"\s|/\*|--", sent[at:behind].decode().lower())[0].strip('"')
