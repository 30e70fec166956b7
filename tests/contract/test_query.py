"""SQL over the landed tables: the answers of a full read, of one moment, and nothing else within reach."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import ManifestFile

from spark_jobs.commit.batch_commit import commit_of
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.swap import land
from spark_jobs.hot.prefix import Prefix, load_seam
from spark_jobs.hot.segment import Segment, Share
from spark_jobs.hot.watermark import Epoch
from spark_jobs.lake.moments import Moment
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import ConfigError, RetryableError
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.query.duckdb_source import HotRows, TableSource
from spark_jobs.query.query import Engine, SqlQuery, answer_query, query
from tests.support.recovery_scene import Scene, make_scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from tests.support.lake import Lake

CONDITIONS = [
    "id = 7",
    "id > 3 AND id <= 12",
    "id IN (1, 5, 25)",
    "NOT (id IN (1, 5, 25))",
    "name = 'n4' OR id = 11",
    "name >= 'n2' AND name < 'n3'",
    "name LIKE 'n1%'",
    "name IS NULL OR id = 2",
    "\"at\" BETWEEN TIMESTAMPTZ '2026-01-01 03:00+00' AND TIMESTAMPTZ '2026-01-01 10:00+01'",
    "_kafka_offset >= 10 AND _kafka_partition = 0",
    "_kafka_key IS NOT NULL",
    "id + 1 = 5 AND id <> 4",
    "id = 3.0",
    "id < 5 AND lower(name) = 'n3'",
]


@pytest.fixture
def scene(lake: Lake, tmp_path: Path) -> Scene:
    """A table of three batches, the second with a dead letter."""
    return _fill(make_scene(lake, str(tmp_path / "state")))


@pytest.fixture
def embedded(sqlite_lake: Lake, tmp_path: Path) -> Scene:
    """The same on the embedded catalog."""
    return _fill(make_scene(sqlite_lake, str(tmp_path / "state")))


def _fill(scene: Scene) -> Scene:
    scene.lake.drain(0, 10)
    scene.lake.drain(10, 20, dead_letters=[12])
    scene.lake.drain(20, 30)
    return scene


def _ask(scene: Scene, sql: str, as_of: Moment | None = None) -> list[dict[str, Any]]:
    with query(scene.pipeline, scene.connections, sql, as_of=as_of) as answer:
        return [row for batch in answer.batches for row in batch.to_pylist()]


def test_the_table_and_its_dead_letters_are_read_by_name(scene: Scene) -> None:
    """By the last part of the name and by the whole, joined with itself too; its rows are the files'."""
    assert _ask(scene, "SELECT count(*) AS n, sum(id) AS s FROM t") == [{"n": 29, "s": 423}]
    assert _ask(scene, f"FROM {scene.pipeline.table} SELECT max(id) AS m") == [{"m": 29}]
    assert _ask(scene, "SELECT _kafka_offset AS o, error FROM dead_letters") == [
        {"o": 12, "error": "not JSON"}
    ]
    joined = "SELECT count(*) AS n FROM t JOIN t AS u ON u.id = t.id + 1"
    assert _ask(scene, joined) == [{"n": 27}]
    every = sorted(_ask(scene, "FROM t"), key=lambda row: row["id"])
    table = scene.lake.load()
    files = [table.io.new_input(task.file.file_path).open() for task in table.scan().plan_files()]
    there = pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")
    # PyIceberg's scan would show an empty list (apache/iceberg-python#3833).
    assert there["_kafka_headers"].null_count == there.num_rows
    assert every == there.to_pylist()


def test_each_record_is_in_one_of_the_tables_at_every_moment(scene: Scene) -> None:
    """Also between a replay's two commits, and where another lands while the tables are being loaded."""
    places = "SELECT _kafka_offset AS o FROM t UNION ALL SELECT _kafka_offset FROM dead_letters"
    _bring(scene)
    _replay(scene, dead_letters=[15])
    owing = scene.connections, replace(scene.connections, open_catalog=_landing_between(scene))
    for connections in owing:
        asked = replace(scene, connections=connections)
        assert sorted(row["o"] for row in _ask(asked, places)) == list(range(30))
        assert _ask(asked, "SELECT error FROM dead_letters WHERE _kafka_offset = 12") == []
        assert _ask(asked, "SELECT count(*) AS n FROM dead_letters") == [{"n": 1}]
    main = scene.lake.load().metadata.current_snapshot_id
    assert _ask(scene, "SELECT _kafka_offset AS o FROM dead_letters", Moment(main)) == [{"o": 17}]
    _bring(scene)
    assert sorted(row["o"] for row in _ask(scene, places)) == list(range(30))
    assert _ask(scene, "SELECT _kafka_offset AS o FROM dead_letters") == [{"o": 17}]


def test_a_storage_that_does_not_say_what_is_owed_ends_the_query_by_name(
    embedded: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its first row too: who asks learns that trying again may do."""
    _bring(embedded)
    _replay(embedded, dead_letters=[15])

    def refused(_file: PyArrowFile) -> bool:
        raise OSError("AWS Error SLOW_DOWN during HeadObject operation")

    monkeypatch.setattr(PyArrowFile, "exists", refused)
    with pytest.raises(RetryableError) as away:
        _ask(embedded, "FROM dead_letters")
    assert away.value.code == "storage-failed"


def _bring(scene: Scene) -> None:
    commit_pending(scene.lake.access(), scene.pipeline.table, progress_of(scene.lake.load()), {})


def _replay(scene: Scene, *, dead_letters: list[int]) -> None:
    """Replace offsets 10 to 20; the dead letters stay owed."""
    lake = scene.lake
    drained = lake.request(10, 20, dead_letters=dead_letters)
    epoch = progress_of(lake.load()).replay_epoch
    batch = replace(drained.batch, kind=REPLAY, epoch=epoch)
    land(lake.access(), commit_of(drained.table_uuid, batch, drained.written, committed_at_ms=0))


def _landing_between(scene: Scene) -> Callable[[], Catalog]:
    """Opens catalogs; before the second one another replay lands."""
    opened = []

    def open_catalog() -> Catalog:
        opened.append(1)
        if len(opened) == 2:
            _replay(scene, dead_letters=[17])
        return scene.lake.open()

    return open_catalog


def test_dead_letters_that_are_ahead_of_the_table_are_left_out(embedded: Scene) -> None:
    """Of a batch that lands while the tables are being loaded there is all in the answer, or nothing."""
    opened: list[int] = []

    def open_catalog() -> Catalog:
        opened.append(1)
        if len(opened) == 2:
            embedded.lake.drain(30, 40, dead_letters=[35])
            _bring(embedded)
        return embedded.lake.open()

    asked = replace(embedded, connections=replace(embedded.connections, open_catalog=open_catalog))
    newest = "SELECT max(_kafka_offset) FROM"
    places = f"SELECT ({newest} t) AS rows, ({newest} dead_letters) AS dead"
    assert _ask(asked, places) == [{"rows": 29, "dead": 12}]
    assert _ask(asked, places) == [{"rows": 39, "dead": 35}]


def test_conditions_keep_the_rows_a_full_read_would(embedded: Scene) -> None:
    """Whether Iceberg's scan applies them or DuckDB does."""
    rows = embedded.lake.load().scan().to_arrow()
    with duckdb.connect() as plain:
        plain.register("t", rows)
        plain.execute("SET TimeZone = 'UTC'")
        for condition in CONDITIONS:
            sql = f"FROM t SELECT id WHERE {condition} ORDER BY id"
            expected = [row[0] for row in plain.execute(sql).fetchall()]
            assert [row["id"] for row in _ask(embedded, sql)] == expected, condition


def test_conditions_keep_the_same_rows_of_those_that_are_in_no_file(embedded: Scene) -> None:
    """Whoever applies them; counted too."""
    table = embedded.lake.load()
    rows = table.scan().to_arrow()
    hot = TableSource(lambda: table.scan(AlwaysFalse()))
    names = rows.column("name").combine_chunks().dictionary_encode()
    as_held = rows.set_column(rows.column_names.index("name"), "name", names)
    hot.hot = HotRows([rows.slice(0, 11), as_held.slice(11)])
    with duckdb.connect() as plain:
        plain.register("t", rows)
        hot.register(plain, "hot")
        plain.execute("SET TimeZone = 'UTC'")
        for condition in CONDITIONS:
            for asked in ("id", "count(*)", "name, _kafka_headers, id"):
                sql = f"SELECT {asked} FROM {{}} WHERE {condition} ORDER BY ALL"  # noqa: S608
                there = [plain.execute(sql.format(name)).fetchall() for name in ("t", "hot")]
                assert there[0] == there[1], (asked, condition)
        assert plain.execute("SELECT count(*) FROM hot").fetchall() == [(29,)]


def test_queries_over_one_state_of_the_lake_read_its_metadata_once(
    embedded: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they ask for; each has the hot rows of its own moment, and the lake's alone none."""
    seam = load_seam(embedded.pipeline, embedded.connections)
    assert seam.dead_letters is not None
    rows, letters = (table.scan().to_arrow() for table in (seam.table, seam.dead_letters))
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def fetched(file: ManifestFile, *asked: Any, **how: Any) -> Any:
        read.append(file.manifest_path)
        return fetch(file, *asked, **how)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", fetched)

    def ask(engine: Engine, hot: int, sql: str) -> list[dict[str, Any]]:
        epoch = Epoch("u", "t", 1, 0)
        segment = Segment(epoch, 0, 30, 30 + hot, rows.slice(0, hot), letters.slice(0, min(hot, 1)))
        prefix = Prefix(seam, (Share(0, 0, 30, 30 + hot, (segment,)),), 0)
        with answer_query(SqlQuery(embedded.pipeline, sql), seam, engine, prefix=prefix) as answer:
            return [row for batch in answer.batches for row in batch.to_pylist()]

    beside = "(FROM dead_letters SELECT count(*)) AS l, (FROM sluice_watermark SELECT end_offset) AS e"
    sql = f"SELECT count(*) AS n, {beside} FROM t"  # noqa: S608
    with closing(Engine()) as engine:
        for hot in (7, 0, 3):
            counts = {"n": 29 + hot, "l": 1 + min(hot, 1), "e": 30 + hot}
            assert ask(engine, hot, sql) == [counts]
            with pytest.raises(ConfigError):
                ask(engine, 5, "SELEKT 1")
            assert ask(engine, hot, f"{sql} WHERE _kafka_offset >= 0") == [counts]
        held = [source.hot.tables for each in engine._idle for source in each.prepared.values()]
    assert held
    assert not any(held)
    assert len(read) == len(set(read)) > 1


@pytest.mark.parametrize("sql", ["SHOW TABLES", " show  tables ;\n"])
def test_a_list_of_tables_has_none_that_others_are_made_of(embedded: Scene, sql: str) -> None:
    """A person sees what they may ask for, by its whole name and its short one."""
    names = {row["name"] for row in _ask(embedded, sql)}
    assert names >= {"t", "dead_letters"}
    assert not [name for name in names if "in files" in name]


def test_no_rows_are_an_answer(embedded: Scene) -> None:
    """Its columns are known all the same."""
    with query(embedded.pipeline, embedded.connections, "SELECT id, name FROM t WHERE id < 0") as answer:
        assert answer.schema.names == ["id", "name"]
        assert sum(batch.num_rows for batch in answer.batches) == 0


def test_only_files_that_matter_are_opened(embedded: Scene) -> None:
    """A file outside the condition, or beyond the limit, may be gone; a query that needs it says so."""
    files = {task.file.record_count: task.file for task in embedded.lake.load().scan().plan_files()}
    embedded.lake.load().io.delete(files[9].file_path)
    assert _ask(embedded, "SELECT count(*) AS n FROM t WHERE _kafka_offset >= 20") == [{"n": 10}]
    assert _ask(embedded, "SELECT count(*) AS n FROM t WHERE id < 10 OR id IN (25, 26)") == [{"n": 12}]
    assert len(_ask(embedded, "SELECT id FROM t LIMIT 3")) == 3
    assert _ask(embedded, "SELECT count(*) AS n FROM t") == [{"n": 29}]  # the metadata says so
    with pytest.raises(RetryableError) as away:
        _ask(embedded, "SELECT sum(id) FROM t")
    assert away.value.code == "table-unreadable"
    assert files[9].file_path.rpartition("/")[2] in away.value.message


def test_an_earlier_moment_has_its_own_rows_and_dead_letters(lake_with_history: Lake, tmp_path: Path) -> None:
    """By snapshot id and by time; the dead letters of a batch belong to it, whenever they were committed."""
    scene = _fill(make_scene(lake_with_history, str(tmp_path / "state")))
    counts = "SELECT (SELECT count(*) FROM t) AS rows, (SELECT count(*) FROM dead_letters) AS dead"
    expected = [(0, 0), (10, 0), (19, 1), (29, 1)]
    history = scene.lake.load().metadata.snapshots
    assert len(history) == len(expected)
    for snapshot, (rows, dead) in zip(history, expected, strict=True):
        for moment in (Moment(snapshot.snapshot_id), Moment(at_ms=snapshot.timestamp_ms)):
            assert _ask(scene, counts, moment) == [{"rows": rows, "dead": dead}], snapshot
    for unknown in (Moment(snapshot_id=5), Moment(at_ms=history[0].timestamp_ms - 1)):
        with pytest.raises(ConfigError) as refused:
            _ask(scene, counts, unknown)
        assert refused.value.code == "no-such-snapshot"
        assert str(history[0].snapshot_id) in refused.value.hint


@pytest.mark.nessie
def test_a_catalog_without_history_is_named(
    nessie_catalog_properties: dict[str, str], tmp_path: Path
) -> None:
    """Its newest state can be queried, an earlier one is refused."""
    from tests.support.lake import Lake  # the fixture of all catalogs would run this three times

    scene = _fill(
        make_scene(Lake("nessie", nessie_catalog_properties, tmp_path.name), str(tmp_path / "state"))
    )
    newest = scene.lake.load().metadata.current_snapshot_id
    assert _ask(scene, "SELECT count(*) AS n FROM t", Moment(newest)) == [{"n": 29}]
    with pytest.raises(ConfigError) as refused:
        _ask(scene, "SELECT count(*) AS n FROM t", Moment(at_ms=0))
    assert refused.value.code == "no-history"


def test_a_query_that_has_no_time_is_told_so_wherever_it_is(embedded: Scene) -> None:
    """Also while its tables are being handed over."""
    endless = "SELECT sum(a.i * b.i) FROM range(10000000) AS a(i), range(10000000) AS b(i)"
    asked = SqlQuery(embedded.pipeline, endless)

    def ask(engine: Engine, seconds: float) -> None:
        seam = load_seam(embedded.pipeline, embedded.connections)
        with answer_query(asked, seam, engine, seconds=seconds) as answer:
            next(answer.batches)

    with closing(Engine()) as engine:
        for half_ms in range(12):
            with pytest.raises(RetryableError) as ended:
                ask(engine, half_ms / 2e3)
            assert ended.value.code == "query-timeout"


def test_what_the_query_itself_meets_behind_its_first_rows_is_not_the_tables(embedded: Scene) -> None:
    """Who asks again would meet it again."""
    with pytest.raises(ConfigError) as refused:
        _ask(embedded, "SELECT CASE WHEN i > 50000 THEN CAST('x' AS INT) END FROM range(100000) AS r(i)")
    assert refused.value.code == "query-refused"
    assert "Conversion Error" in refused.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.db'",
        "EXPORT DATABASE '{folder}/out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_parquet('s3://bucket/key.parquet')",
        "SET enable_external_access = true",
        "EXPLAIN ANALYZE CREATE TABLE memory.main.left_behind AS SELECT 1",
        "CREATE TABLE memory.main.left_behind AS PIVOT (SELECT 1 AS a) ON a USING count(*)",
        "SELECT * FROM rows_of_this_test",
        "SELECT no_such_column FROM t",
        "SELEKT 1",
        "",
    ],
)
def test_nothing_else_is_within_reach(embedded: Scene, tmp_path: Path, sql: str) -> None:
    """No file, no network, no extension, no setting, no variable of the process; one line says why."""
    rows_of_this_test = embedded.lake.load().scan().to_arrow()
    assert rows_of_this_test.num_rows == 29
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    with pytest.raises(ConfigError) as refused:
        _ask(embedded, sql.format(file=folder / "secret.txt", folder=folder))
    assert refused.value.code == "query-refused"
    assert "\n" not in refused.value.message
    assert [path.name for path in folder.iterdir()] == ["secret.txt"]


def test_a_pipeline_without_a_table_is_told_how_to_make_it(sqlite_lake: Lake, tmp_path: Path) -> None:
    """The first drain does."""
    scene = make_scene(sqlite_lake, str(tmp_path / "state"))
    sqlite_lake.open().drop_table(sqlite_lake.name())
    with pytest.raises(ConfigError) as refused:
        _ask(scene, "SELECT 1")
    assert refused.value.code == "no-table-yet"
