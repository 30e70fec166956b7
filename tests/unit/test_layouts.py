"""A layout is one file, and what others say of one holds of it."""

from __future__ import annotations

import inspect
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyiceberg.schema import Schema

from cli.listing import COMMANDS
from docs.pages.errors import entries
from spark_jobs.audit import audit as audits
from spark_jobs.audit.counts import AuditCounts
from spark_jobs.audit.row_check import RowCheck
from spark_jobs.commit.batch_commit import stage_rows
from spark_jobs.commit.swap import send
from spark_jobs.commit.table_creation import create_table
from spark_jobs.config import values
from spark_jobs.config.file import read_config
from spark_jobs.config.settings import PipelineConfig, PipelineSettings
from spark_jobs.lake.catalog import open_catalog
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.tables import load_table, progress_of
from spark_jobs.layouts.flat import Flat
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import FOLDER, LAYOUTS, Above, Layout, layout_named
from spark_jobs.records.layouts.flat import flat
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evolution import evolved
from tests.support.shaped import chunk_of

if TYPE_CHECKING:
    from pathlib import Path

EVERY = [layout_named(name) for name in LAYOUTS]


class _Twice(Flat):
    """A dummy: rows as of flat, counted where it is asked, in an order of its own."""

    __slots__ = ()
    stored = "twice"
    called = "a table of all twice"
    sorting = ("_kafka_key",)
    not_said: ClassVar[Any] = {"filter": "Leave it out: it has all of them."}
    refused: ClassVar[Any] = {**Layout.refused, "replay": lambda **at: ValueError(at["pipeline"])}
    asked: ClassVar[list[str]] = []

    @staticmethod
    def rows(*given: Any, **named: Any) -> Any:
        _Twice.asked.append("rows")
        return flat(*given, **named)

    @staticmethod
    def stage(*given: Any) -> Any:
        _Twice.asked.append("stage")
        return stage_rows(*given)

    @staticmethod
    def audit(_pipeline: Any, _connections: Any, tables: Any, *_more: Any, **_named: Any) -> AuditCounts:
        _Twice.asked.append("audit")
        return AuditCounts(rows=tables.data.scan().count())

    def read_again(self, pipeline: str, ranges: str = "") -> str:
        return f"nothing brings {pipeline} {ranges} again"


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> Layout:
    """The dummy, in a file of its own."""
    file = ModuleType("twice")
    file.LAYOUT = _Twice("twice")
    monkeypatch.setitem(sys.modules, f"{FOLDER}.twice", file)
    monkeypatch.setattr(values, "LAYOUTS", (*LAYOUTS, "twice"))
    return file.LAYOUT


def test_a_new_layout_is_one_file(twice: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From `layout: twice` over its plan, rows and staged files to what an audit says of them."""
    (tmp_path / "sluice.yaml").write_text(
        "version: 1\npipelines: {a: {topic: t, table: l.a, layout: twice, filter: id > 1}}\n"
    )
    (problem,) = read_config(tmp_path / "sluice.yaml").problems
    assert "does not apply to a table of all twice" in str(problem)

    pipeline = PipelineConfig.model_validate({"name": "a", "topic": "t", "table": "l.a", "layout": "twice"})
    assert (pipeline.layout, pipeline.table_sort_by) == (twice, ("_kafka_key",))
    schemas: Any = SimpleNamespace(known=lambda _progress: KnownSchemas(), learn=None)
    chunk = chunk_of([b'{"id": 1}', b'{"id": 2}'])
    plan, seen = ReadingPlan.to_observe(pipeline, schemas).observe(lambda decoder: decoder.observe(chunk))
    columns, _ = plan.first(seen)

    warehouse = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": tmp_path.as_uri(), "type": "sql"}
    catalog, made = open_catalog("here", warehouse), {"partition_by": (), "properties": {}}
    progress = Progress("t", 1, {0: 0}, layout=pipeline.layout.stored, starts={0: 0})
    create_table(catalog, "l.a", evolved(Schema(), columns), progress=progress, dead_letters=False, **made)
    table = load_table(catalog, "l.a")
    assert table is not None
    assert progress_of(table).table_layout == twice

    plan = plan.on(table.schema(), progress_of(table))
    rows = plan.rows(batch_id="b").make(chunk).rows
    check = RowCheck(plan.format.plain, plan.origin, plan.columns)
    assert not len(check.compare(chunk, rows).differing)
    written = write_files(table, "f", [rows])
    commit: Any = SimpleNamespace(
        files=lambda table: [to_data_file(each, table.metadata) for each in written], summary={}
    )
    progress = progress_of(table)
    send(catalog, table, progress.table_layout.stage(table, commit, progress.with_attempt("x")))

    table = load_table(catalog, "l.a")
    source = SimpleNamespace(lag=lambda _: 0)
    connections: Any = SimpleNamespace(admin=SimpleNamespace(source_state=lambda _: source))
    tables = SimpleNamespace(data=table, dead_letters=None, routed={})
    monkeypatch.setattr(audits, "tables_as_one", lambda *_: tables)
    found = audits.audit(pipeline, connections)
    assert (found.rows, found.outdated_mend("a")) == (2, "nothing brings a  again")
    assert {"rows", "stage", "audit"} == {*_Twice.asked}
    with pytest.raises(ValueError, match="a"):
        pipeline.layout.refuse("replay", pipeline="a")


@pytest.mark.parametrize("layout", EVERY, ids=str)
def test_what_rooms_above_do_is_there_and_takes_the_same(layout: Layout) -> None:
    """Each place that a file names is a function, and is asked as that of flat rows is."""
    for name, place in vars(Layout).items():
        if isinstance(place, Above):
            own, of_flat = (getattr(each, name) for each in (layout, layout_named("flat")))
            asked, said = (inspect.signature(each).parameters for each in (own, of_flat))
            assert {each.kind for each in said.values()} == {each.kind for each in asked.values()} or (
                name == "of_keys"
            ), name


@pytest.mark.parametrize("layout", EVERY)
def test_no_hint_leads_to_what_the_layout_refuses(layout: Layout) -> None:
    """Neither a key that is not said of it nor an act that is none of its own."""
    at = {"pipeline": "a", "table": "l.a"}
    unlike = layout.unlike(name="n", own="long", there="n", kind="int", is_declared=True)
    hints = [*layout.not_said.values(), layout.no_row_may_go, unlike.hint, entries()[layout.clash]["hint"]]
    hints += [refusal(**at).hint for refusal in layout.refused.values()]
    hints += [layout.read_again("a", "0:1-2"), layout.read_again("a"), layout.compared("a")]
    hints += [f"./sluice {name}" for name in (*layout.rewrite_commands, layout.dead_letter_commands[0])]
    for hint in hints:
        assert not {*re.findall(r"\./sluice (\w+)", hint)} & layout.refused.keys(), hint
        assert not {*re.findall(r"`(\w+): ", hint)} & layout.not_said.keys(), hint


def test_what_is_not_said_of_a_layout_are_keys() -> None:
    """Each is one of a pipeline's; what a layout has for itself is a section or a command."""
    known, commands = PipelineSettings.model_fields.keys(), {entry.name for entry in COMMANDS}
    for layout in EVERY:
        assert {*layout.not_said, *layout.sections} <= known
        assert {*layout.refused, *layout.rewrite_commands} <= commands


def test_only_mirrors_are_made_anew_and_only_archives_go_back() -> None:
    """Every other layout refuses it."""
    for act, whose in (("rebuild", "mirror"), ("export", "archive")):
        assert [layout for layout in EVERY if act not in layout.refused] == [whose]


BY_OFFSET = ("_kafka_generation", "_kafka_partition", "_kafka_offset")
# Name in the table, identity, partitions, order, bytes as keys; checks of its own, upkeep that no drain may
# run beside, columns that a rehearsal leaves out, events of a gateway's sources, and the newest audited.
FACTS: dict[str, tuple[Any, ...]] = {
    "flat": (None, BY_OFFSET, None, None, False, (), (), (), True, 1_000_000),
    "archive": (
        "archive",
        BY_OFFSET,
        ("_kafka_partition",),
        None,
        True,
        (),
        (),
        ("kafka",),
        False,
        1_000_000,
    ),
    "changes": ("changes", BY_OFFSET, None, None, False, (), (), (), True, 1_000_000),
    "mirror": (
        *("mirror", ("_cdc_row_id",), None, ("_cdc_row_id",), False),
        *(("exact",), ("compaction",), (), False, 100_000),
    ),
}


@pytest.mark.parametrize("layout", EVERY, ids=str)
def test_tables_stay_as_their_layout_made_them(layout: Layout) -> None:
    """What lies in them, and what runs on them, goes by these; a change of one needs the tables made anew."""
    table = (layout.stored, layout.identity, layout.partitions, layout.sorting, layout.key_is_binary)
    sets = (layout.own_checks, layout.of_drains, layout.not_compared)
    rest = (layout.tells_source_events, layout.newest_audited)
    assert (*table, *map(tuple, sets), *rest) == FACTS[layout]


@pytest.mark.parametrize("layout", EVERY, ids=str)
def test_what_is_compared_is_changed_by_nothing(layout: Layout) -> None:
    """The command reads both and writes neither."""
    assert layout.compared("a") in ("./sluice audit a", "./sluice replay a --all --diff")
    assert ("replay" in layout.refused) == (layout.compared("a") == "./sluice audit a")
