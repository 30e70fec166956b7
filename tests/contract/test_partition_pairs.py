"""Each partition term over each type that is allowed: files are written, found, replaced and dropped."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.types import DoubleType, FloatType, NestedField

from spark_jobs.commit.replace import ReplacedOffsets, Rewriter
from spark_jobs.commit.swap import land
from spark_jobs.commit.table_creation import create_table, create_with_snapshot
from spark_jobs.config.iceberg_terms import TRANSFORMS, misfit, parse_partition_term
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import exchange_spec, progress_of
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import declared_type, with_metadata_columns
from spark_jobs.storage.paths import normalise_path
from tests.contract.test_catalog_replace import Replacing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from spark_jobs.protocol.batch import WrittenFile
    from tests.support.lake import Lake

NOON = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "int": (-7, 7),
    "long": (-(1 << 40), 1 << 40),
    "float": (1.5, -2.5),
    "double": (1.5, -2.5),
    "decimal(9, 2)": (Decimal("-1.25"), Decimal("1000000.50")),
    "date": (dt.date(1969, 12, 31), dt.date(2026, 1, 1)),
    "time": (dt.time(1, 2, 3, 4), dt.time(23, 59)),
    "timestamp": (NOON.replace(tzinfo=None, year=1969), NOON.replace(tzinfo=None)),
    "timestamptz": (NOON.replace(year=1969), NOON),
    "string": ("ж" * 45, "a/b=c"),
    "uuid": (uuid.UUID(int=1).bytes, uuid.UUID(int=1 << 127).bytes),
    "fixed[4]": (b"\0\1\2\3", b"\xff\xff\xff\xff"),
    "binary": (b"", b"\xff" * 300),
}
_WIDTHS = {"bucket": "bucket(4, {})", "truncate": "truncate(2, {})", "identity": "{}"}


def term(transform: str, column: str = "v") -> str:
    """The term as a person writes it."""
    return _WIDTHS.get(transform, transform + "({})").format(column)


def is_allowed(transform: str, type_name: str) -> bool:
    """Whether a table can be made with it."""
    return misfit(parse_partition_term(term(transform)), type_name) is None


def coordinates(offset: int) -> dict[str, Any]:
    """What Sluice's own columns hold."""
    return {
        "_kafka_topic": "t",
        "_kafka_partition": 0,
        "_kafka_offset": offset,
        "_kafka_generation": 0,
        "_kafka_timestamp": NOON,
        "_ingested_at": NOON,
    }


def written(table: Table, rows: Sequence[Mapping[str, Any]], chunk: int = 2) -> list[WrittenFile]:
    """The rows in files, given to the writer some at a time."""
    writer = SplitWriter(
        table.metadata, table.io, file_prefix=uuid.uuid4().hex, row_group_bytes=1 << 20, max_open_files=99
    )
    for start in range(0, len(rows), chunk):
        part = [{**row, **coordinates(start + n)} for n, row in enumerate(rows[start : start + chunk])]
        writer.write(pa.Table.from_pylist(part, schema=arrow_schema(table.schema())))
    return writer.close()


def append(lake: Lake, rows: Sequence[Mapping[str, Any]]) -> list[WrittenFile]:
    """A commit of the rows, as by another attempt."""
    table = lake.load()
    files = written(table, rows)
    attempt, nothing = uuid.uuid4().hex, ReplacedOffsets.of(0, ())
    land(lake.access(), Replacing(lake.name(), attempt, nothing, files, Rewriter(attempt)))
    return files


def replace_all(lake: Lake, rows: Sequence[Mapping[str, Any]], end: int | None = None) -> None:
    """A replay of offsets 0 to ``end``, or all."""
    files, attempt = written(lake.load(), rows), uuid.uuid4().hex
    replaced = ReplacedOffsets.of(0, [OffsetRange(0, 0, end or len(rows))])
    land(lake.access(), Replacing(lake.name(), attempt, replaced, files, Rewriter(attempt)))


def found(lake: Lake, *names: str) -> list[tuple[Any, ...]]:
    """The columns' values by offset."""
    rows = lake.load().scan().to_arrow().sort_by("_kafka_offset")
    return list(zip(*(rows.column(name).to_pylist() for name in names), strict=True))


def born_with(lake: Lake, columns: Sequence[tuple[str, IcebergType]], identities: Sequence[str]) -> Table:
    """A table that is partitioned as earlier versions allowed it."""
    fields = [NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(columns, 1)]
    schema = with_metadata_columns(Schema(*fields))
    spec = PartitionSpec(
        *(
            PartitionField(
                schema.find_field(name).field_id, PARTITION_FIELD_ID_START + n, IdentityTransform(), name
            )
            for n, name in enumerate(identities)
        )
    )
    return create_with_snapshot(
        lake.open(), lake.name(), schema=schema, spec=spec, properties={}, progress=Progress("t", 0, {0: 0})
    )


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_type_a_term_takes_is_written_replaced_and_dropped(sqlite_lake: Lake, transform: str) -> None:
    """A table that has all of them at once has each value in its partition, before a replay and after."""
    kinds = [kind for kind in VALUES if is_allowed(transform, kind)]
    names = [f"v{n}" for n in range(len(kinds))]
    fields = [
        NestedField(n + 1, name, declared_type(kind), required=False)
        for n, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    create_table(
        sqlite_lake.open(),
        sqlite_lake.name(),
        Schema(*fields),
        partition_by=[term(transform, name) for name in names],
        properties={},
        progress=Progress("t", 0, {0: 0}),
        dead_letters=False,
    )
    rows = [{name: VALUES[kind][n] for name, kind in zip(names, kinds, strict=True)} for n in (0, 1, 0)]
    rows.append(dict.fromkeys(names))
    files = append(sqlite_lake, rows)
    assert len(files) == 3  # two of one partition, met in two chunks, one of null
    assert {len(part.encode()) <= 255 for file in files for part in file.path.split("/")} == {True}
    before = found(sqlite_lake, *names)
    replace_all(sqlite_lake, rows, end=2)
    assert len(found(sqlite_lake, *names)) == 6
    replace_all(sqlite_lake, rows)
    assert found(sqlite_lake, *names) == before
    assert sorted(task.file.record_count for task in sqlite_lake.load().scan().plan_files()) == [1, 1, 2]


def test_what_is_allowed_is_what_the_format_says_but_for_three() -> None:
    """Refused are numbers with two zeros and NaN, and what Spark cannot read as PyIceberg writes it."""
    transforms = {name: parse_transform(f"{name}[4]" if name in _WIDTHS else name) for name in TRANSFORMS}
    differing = {
        (name, kind)
        for name, each in (transforms | {"identity": IdentityTransform()}).items()
        for kind in VALUES
        if each.can_transform(declared_type(kind)) != is_allowed(name, kind)
    }
    assert differing == {("identity", "float"), ("identity", "double"), ("identity", "fixed[4]")}


def test_a_table_partitioned_by_doubles_keeps_its_values_and_takes_replays(sqlite_lake: Lake) -> None:
    """Both zeros have partitions of their own, all NaN one; files of each are dropped and replaced."""
    born_with(sqlite_lake, [("d", DoubleType()), ("f", FloatType())], ["d", "f"])
    values = [0.0, -0.0, nan, 1.5, -0.0, 0.0, nan, None]
    rows = [{"d": value, "f": value} for value in values]
    append(sqlite_lake, rows)
    files = list(sqlite_lake.load().scan().plan_files())
    assert sorted(str(task.file.partition[0]) for task in files) == ["-0.0", "0.0", "1.5", "None", "nan"]
    replace_all(sqlite_lake, rows)
    replace_all(sqlite_lake, rows, end=3)
    replace_all(sqlite_lake, rows)
    assert [str(d) for d, _ in found(sqlite_lake, "d", "f")] == [str(each) for each in values]
    for task in sqlite_lake.load().scan().plan_files():
        told = pq.read_table(normalise_path(task.file.file_path), columns=["d"]).column(0).to_pylist()
        assert {str(value) for value in told} == {str(task.file.partition[0])}
    assert progress_of(sqlite_lake.load()).next_offsets == {0: 0}


def test_values_too_long_for_a_folder_keep_folders_of_their_own(sqlite_lake: Lake) -> None:
    """Two values that differ at their ends alone have different folders, each of a name that is taken."""
    create_table(
        sqlite_lake.open(),
        sqlite_lake.name(),
        Schema(NestedField(1, "v", declared_type("string"), required=False)),
        partition_by=["v"],
        properties={},
        progress=Progress("t", 0, {0: 0}),
        dead_letters=False,
    )
    values = ["ж" * 45 + "a", "ж" * 45 + "b", "short"]
    files = append(sqlite_lake, [{"v": value} for value in values])
    folders = {Path(file.path).parent.name for file in files}
    assert len(folders) == 3
    assert "v=short" in folders
    assert sorted(value for (value,) in found(sqlite_lake, "v")) == sorted(values)
    assert to_data_file(files[0], sqlite_lake.load().metadata).partition[0] == values[0]


def test_a_column_of_a_past_partitioning_may_be_dropped(sqlite_lake: Lake) -> None:
    """What was written for it is read, replaced in part and as a whole, and keeps its place till then."""
    create_table(
        sqlite_lake.open(),
        sqlite_lake.name(),
        Schema(
            *(
                NestedField(number, name, declared_type(kind), required=False)
                for number, (name, kind) in enumerate(
                    {"id": "long", "region": "string", "at": "timestamptz", "part": "struct<n: int>"}.items(),
                    1,
                )
            )
        ),
        partition_by=["bucket(4, id)", "region", "day(at)", "truncate(10, part.n)"],
        properties={},
        progress=Progress("t", 0, {0: 0}),
        dead_letters=False,
    )
    rows = [{"id": n, "region": f"r{n % 2}", "at": NOON, "part": {"n": n}} for n in range(6)]
    append(sqlite_lake, rows)
    table = sqlite_lake.load()
    with table.transaction() as transaction:
        exchange_spec(table.schema(), table.spec(), PartitionSpec(), transaction)
    table = sqlite_lake.load()
    with table.update_schema(allow_incompatible_changes=True) as update:
        for name in ("id", "region", "part"):
            update.delete_column(name)
    left = [{"at": NOON} for _ in rows]
    replace_all(sqlite_lake, left[:3], end=3)
    assert [offset for (offset,) in found(sqlite_lake, "_kafka_offset")] == [*range(6)]
    places = {
        task.file.partition[1] for task in sqlite_lake.load().scan().plan_files() if task.file.spec_id == 0
    }
    assert places == {"r0", "r1"}
    replace_all(sqlite_lake, left)
    assert [offset for (offset,) in found(sqlite_lake, "_kafka_offset")] == [*range(6)]
