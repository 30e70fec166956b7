"""How tables come to be, on every catalog."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.types import StringType

from prove.lab.fault_proxy import Fault, FaultProxy, is_table_commit
from spark_jobs.commit.table_creation import create_dead_letter_table
from spark_jobs.lake.tables import evolve_table, load_table, progress_of
from spark_jobs.protocol.errors import CommitConflict, ConfigError, RetryableError, SourceChanged
from spark_jobs.schema.iceberg_types import IDENTITY, METADATA_COLUMNS
from tests.support.lake import SCHEMA, Lake

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from spark_jobs.commit.swap import Committed


def test_a_table_is_born_with_a_snapshot_that_is_its_anchor(lake: Lake) -> None:
    """The first snapshot is there before anyone can see the table, and its progress names it."""
    table = lake.make_table(starts={0: 7, 1: 0})
    progress = progress_of(table)
    assert table.metadata.current_snapshot_id == progress.anchor is not None
    assert progress.next_offsets == {0: 7, 1: 0}
    assert (progress.cluster_id, progress.topic_id, progress.last_commits) == ("c", "t", ())


def test_a_table_has_our_columns_and_properties(lake: Lake) -> None:
    """JSON columns first, then the metadata columns; format 2, zstd, old metadata files deleted."""
    table = lake.make_table(properties={"comment": "mine"})
    assert [f.name for f in table.schema().fields] == ["id", "name", "at", *METADATA_COLUMNS]
    assert table.metadata.format_version == 2
    wanted = {
        "write.parquet.compression-codec": "zstd",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "20",
        "comment": "mine",
    }
    assert wanted.items() <= table.properties.items()
    assert "commit.retry.num-retries" not in table.properties
    letters = lake.load("t_dead_letters").properties["comment"]
    assert letters == f"Created by Sluice for records that could not become rows of {lake.name()}"
    assert lake.make_table("u").properties["comment"] == "Created by Sluice from the Kafka topic flights"


def test_a_table_says_what_identifies_a_row_and_how_rows_are_sorted(lake: Lake) -> None:
    """Required columns, identifier fields and sort order, also after new columns; of the dead letters too."""
    lake.make_table()
    evolve_table(lake.open, lake.name(), [(("more",), StringType())])
    identity = {"_kafka_generation", "_kafka_partition", "_kafka_offset"}
    for table in (lake.load(), lake.load("t_dead_letters")):
        schema = table.schema()
        assert schema.identifier_field_names() == identity
        assert {field.name for field in schema.fields if field.required} == identity
        order = [schema.find_column_name(field.source_id) for field in table.sort_order().fields]
        assert order == ["_kafka_generation", "_kafka_partition", "_kafka_offset"]
        assert {str(field) for field in table.sort_order().fields if "DESC" in str(field)} == set()


def test_a_mirrors_key_is_what_identifies_a_row(lake: Lake) -> None:
    """It is required, beside the coordinates; also after new columns."""
    lake.make_table(identity=("name",))
    evolve_table(lake.open, lake.name(), [(("more",), StringType())])
    schema = lake.load().schema()
    assert schema.identifier_field_names() == {"name"}
    assert {field.name for field in schema.fields if field.required} == {"name", *IDENTITY}


def test_a_dropped_table_comes_back_at_another_location(lake: Lake) -> None:
    """No two tables share a folder, so that nothing of one is ever taken for the other's."""
    first = lake.make_table(dead_letters=False)
    lake.open().drop_table(lake.name())
    assert lake.make_table(dead_letters=False).location() != first.location()


def test_a_table_can_be_put_elsewhere(lake: Lake) -> None:
    """It and its dead letters get folders of their own there, however often it is made, or it is refused."""
    elsewhere = lake.make_table("other").location().rpartition("/")[0] + "/elsewhere"
    if lake.kind == "nessie":  # which puts them where it wants
        with pytest.raises(ConfigError, match="placed the new table"):
            lake.make_table(location=elsewhere)
        assert load_table(lake.open(), lake.name()) is None
        return
    first = lake.make_table(location=elsewhere)
    lake.open().drop_table(lake.name())
    places = [first.location(), lake.make_table(location=elsewhere).location()]
    places.append(lake.load("t_dead_letters").location())
    assert len(set(places)) == 3
    assert all(place.startswith(f"{elsewhere}/") for place in places)


def test_four_creators_make_one_table(lake: Lake) -> None:
    """The creating call decides; the losers load the winner's and leave no other name behind."""
    lake.make_table("other")
    with ThreadPoolExecutor(4) as pool:
        tables = list(pool.map(lambda _: lake.make_table(), range(4)))
    assert len({table.metadata.table_uuid for table in tables}) == 1
    names = {name[-1] for name in lake.open().list_tables(lake.namespace)}
    assert names == {"t", "t_dead_letters", "other", "other_dead_letters"}


@pytest.mark.parametrize("call", [0, 1], ids=["dead letters", "rows"])
@pytest.mark.parametrize("has_landed", [False, True], ids=["before", "after"])
def test_a_creator_killed_at_its_call_leaves_nothing_unfinished(
    lake: Lake, call: int, has_landed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is there with its snapshot or not at all, and the next creator makes what is missing."""
    with monkeypatch.context() as patched:
        die_at_call(type(lake.open()), patched, call, has_landed=has_landed)
        with pytest.raises(SystemExit):
            lake.make_table(starts={0: 3})
    left = [name[-1] for name in lake.open().list_tables(lake.namespace)]
    assert sorted(left, reverse=True) == ["t_dead_letters", "t"][: call + has_landed]
    before = {name: lake.load(name).metadata.table_uuid for name in left}
    lake.make_table(starts={0: 5})
    assert {name: lake.load(name).metadata.table_uuid for name in left} == before
    assert lake.next_offset() == (3 if "t" in left else 5)
    lake.drain(lake.next_offset(), 10)
    assert lake.offsets() == list(range(3 if "t" in left else 5, 10))


def die_at_call(kind: type[Catalog], patched: pytest.MonkeyPatch, call: int, *, has_landed: bool) -> None:
    """Die before or after the creator's creating call of this number."""
    own, calls = kind.commit_table, count()

    def commit_table(*arguments: Any) -> Any:
        is_last = next(calls) == call
        if is_last and not has_landed:
            raise SystemExit
        answer = own(*arguments)
        if is_last:
            raise SystemExit
        return answer

    patched.setattr(kind, "commit_table", commit_table)


@pytest.mark.parametrize(
    "fault",
    [
        Fault.REFUSED_409,
        Fault.REFUSED_429,
        Fault.REFUSED_500,
        Fault.REFUSED_503,
        Fault.CUT_BEFORE,
        Fault.LANDED_409,
        Fault.LANDED_TWICE,
        Fault.LANDED_504,
        Fault.CUT_AFTER,
        Fault.LATE_504,
    ],
    ids=lambda fault: fault.name.lower(),
)
def test_whatever_a_creating_call_is_answered_one_table_is_made(rest_lake: Lake, fault: Fault) -> None:
    """By a repeated one at once, by others with the next run; a call that comes later does not."""
    with FaultProxy(rest_lake.properties["uri"]) as proxy:
        lake = rest_lake.behind(proxy.url)
        proxy.arm(fault, is_table_commit, takes_creations=True)
        if fault in {Fault.LANDED_409, Fault.LANDED_TWICE}:
            lake.make_table(dead_letters=False)
        else:
            with pytest.raises(RetryableError) as caught:
                lake.make_table(dead_letters=False)
            assert caught.value.code == "catalog-away"
        table = lake.make_table(dead_letters=False)
        lake.drain(0, 10)
        if fault is Fault.LATE_504:
            assert proxy.late_status() == HTTPStatus.CONFLICT
        assert sum(seen.fault is not None for seen in proxy.seen) == 1
    assert rest_lake.load().metadata.table_uuid == table.metadata.table_uuid
    assert rest_lake.offsets() == list(range(10))


def test_a_creator_that_slept_finds_the_table_of_another_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its call comes after two batches of that one's table, and changes nothing."""
    kind = type(lake.open())
    own, sleeping = kind.commit_table, [True]

    def commit_table(*arguments: Any) -> Any:
        if sleeping:
            sleeping.clear()
            lake.make_table(dead_letters=False)
            lake.drain(0, 10)
            lake.drain(10, 20)
        return own(*arguments)

    monkeypatch.setattr(kind, "commit_table", commit_table)
    lake.make_table(dead_letters=False, starts={0: 7})
    assert lake.offsets() == list(range(20))
    assert lake.next_offset() == 20


def test_a_table_may_lie_in_a_namespace_of_a_namespace(lake: Lake) -> None:
    """Glue alone has none, and says so."""
    inner = replace(lake, namespace=f"{lake.namespace}.inner")
    if lake.kind == "glue":
        with pytest.raises(ConfigError, match="AWS Glue does not take this name"):
            inner.make_table()
        return
    inner.make_table()
    inner.drain(0, 10)
    assert inner.offsets() == list(range(10))


def test_a_stale_run_of_the_very_first_batch_is_refused(lake: Lake) -> None:
    """It slept through four drains; its swap must not take the table back to its own rows."""
    lake.make_table()

    def four_drains() -> None:
        for start in range(0, 40, 10):
            lake.drain(start, start + 10)

    with pytest.raises(CommitConflict) as caught:
        lake.commit(lake.request(0, 10), before_swap=four_drains)
    assert caught.value.code == "offsets-moved"
    assert lake.offsets() == list(range(40))
    assert lake.next_offset() == 40


@pytest.mark.parametrize("committers", [2, 4])
def test_of_several_first_committers_one_wins(lake: Lake, committers: int) -> None:
    """The same first range at once: one commit, the others are told of the conflict."""
    lake.make_table()
    requests = [lake.request(0, 10) for _ in range(committers)]

    def attempt(request: object) -> Committed | CommitConflict:
        try:
            return lake.commit(request)  # type: ignore[arg-type]
        except CommitConflict as conflict:
            return conflict

    with ThreadPoolExecutor(committers) as pool:
        outcomes = list(pool.map(attempt, requests))
    assert sum(not isinstance(outcome, CommitConflict) for outcome in outcomes) == 1
    assert lake.offsets() == list(range(10))


def test_a_table_that_sluice_did_not_make_is_refused(lake: Lake) -> None:
    """Its rows and properties are someone else's."""
    catalog = lake.open()
    catalog.create_namespace(lake.namespace)
    catalog.create_table(lake.name(), SCHEMA)
    with pytest.raises(ConfigError) as caught:
        load_table(lake.open(), lake.name())
    assert caught.value.code == "foreign-table"


def test_a_table_without_a_snapshot_is_a_named_error(lake: Lake) -> None:
    """There is nothing to compare a commit with, and some catalogs then compare nothing."""
    catalog = lake.open()
    catalog.create_namespace(lake.namespace)
    catalog.create_table(lake.name(), SCHEMA, properties={"sluice.format-version": "1"})
    with pytest.raises(SourceChanged) as caught:
        load_table(lake.open(), lake.name())
    assert caught.value.code == "no-snapshot"


def test_a_table_that_is_not_there_is_none(lake: Lake) -> None:
    """Neither a missing table nor a missing namespace is an error."""
    assert load_table(lake.open(), lake.name()) is None


def test_dead_letters_of_an_earlier_table_are_refused(sqlite_lake: Lake) -> None:
    """A table dropped and made again would never get its dead letters in beside the old ones."""
    lake = sqlite_lake
    lake.make_table()
    committed = lake.drain(0, 10, dead_letters=[3])
    assert committed.progress.pending_dead_letters is not None
    lake.drain(10, 20)
    lake.open().drop_table(lake.name())
    with pytest.raises(ConfigError) as caught:
        lake.make_table()
    assert caught.value.code == "dead-letters-of-another-table"


def test_dead_letters_that_moved_on_with_their_table_are_not_refused(sqlite_lake: Lake) -> None:
    """A run that read the table's progress before another one committed meets newer dead letters."""
    lake = sqlite_lake
    before = progress_of(lake.make_table())
    catalog = lake.open()
    lake.drain(0, 10, dead_letters=[3])
    lake.drain(10, 20, dead_letters=[13])
    table = create_dead_letter_table(catalog, lake.name(), {}, before)
    assert progress_of(table).next_offsets == {0: 10}
