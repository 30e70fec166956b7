"""All pairs of a partition term and a type at once, through the whole life of a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.pipeline_lab import by_offset, configure
from spark_jobs.config.iceberg_terms import TRANSFORMS
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.reshape.retype import retype
from tests.contract.test_partition_pairs import VALUES, is_allowed, term
from tests.support.new_lab import as_json
from tests.support.upkeep_lab import set_upkeep, tidy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

# Of a decimal's type there may be one field: the truncated one has another.
PAIRS = [
    (transform, "decimal(10, 2)" if (transform, kind) == ("truncate", "decimal(9, 2)") else kind)
    for transform in TRANSFORMS
    for kind in VALUES
    if is_allowed(transform, kind)
]
_SAID: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-7, 7),
    "long": (-(1 << 40), 1 << 40),
    "decimal(9, 2)": ("-1.25", "1000000.50"),
    "decimal(10, 2)": ("-1.25", "1000000.50"),
    "date": ("1969-12-31", "2026-01-01"),
    "time": ("01:02:03.000004", "23:59:00"),
    "timestamp": ("1969-01-01T12:30:00", "2026-01-01T12:30:00"),
    "timestamptz": ("1969-01-01T12:30:00Z", "2026-01-01T12:30:00Z"),
    "string": ("ж", "a/b=c"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000000"),
    "fixed[4]": ("abcd", "zzzz"),
    "binary": ("", "ж"),
}


def _record(pairs: Sequence[tuple[str, str]], n: int) -> dict[str, Any]:
    fields = {f"c{at}": _SAID[kind][n % 2] for at, (_, kind) in enumerate(pairs)} if n % 3 else {}
    return {**fields, "price": n}


def _lived(new_lab: NewLab, pairs: Sequence[tuple[str, str]], last: int) -> tuple[Lab, dict[Any, Any]]:
    """A table partitioned by all of the pairs, drained, replayed, retyped; its first rows as they were."""
    columns = {f"c{at}": kind for at, (_, kind) in enumerate(pairs)} | {"price": "double"}
    terms = [term(transform, f"c{at}") for at, (transform, _) in enumerate(pairs)]
    lab = new_lab(columns=columns, partition_by=terms)
    here = replace(lab, is_here=True)
    set_upkeep(lab, compact_above=5)
    new_lab.produce(lab, as_json(*(_record(pairs, n) for n in range(6))))
    assert here.drain().balance["rows"] == 6
    rows = {at: [row[name] for name in columns] for at, row in by_offset(lab).items()}
    here.replay(OffsetRange(0, 1, 5))
    configure(lab, "pipelines/orders", {"columns": columns | {"price": "long"}})
    with here.connections() as connections:
        retype(lab.pipeline, connections, "price", "long", reason="counts")
    for start in range(6, last, 6):
        new_lab.produce(lab, as_json(*(_record(pairs, n) for n in range(start, start + 6))))
        assert here.drain().balance["rows"] == 6
    return lab, rows


def test_every_allowed_pair_is_drained_replayed_retyped_and_compacted(new_lab: NewLab) -> None:
    """One table partitioned by all of them has every value at each step; Spark merges its files."""
    pairs = [pair for pair in PAIRS if pair[1] != "time"]
    lab, rows = _lived(new_lab, pairs, 30)
    (done,) = [each for each in tidy(lab, "compaction").tables if each.table == "lab.orders"]
    assert (done.before.data_files, done.after.data_files) == (17, 3), done
    found = lab.audit()
    assert found.is_clean, found
    names = [*(f"c{at}" for at in range(len(pairs))), "price"]
    after = by_offset(lab)
    assert {at: [after[at][name] for name in names] for at in rows} == rows
    replace(lab, is_here=True).replay(OffsetRange(0, 0, 30))
    assert lab.audit().is_clean


def test_a_time_is_kept_apart_and_not_compacted(new_lab: NewLab) -> None:
    """Spark has no type for it: told by name, and everything else goes on."""
    terms = {f"c{at}": transform for at, (transform, kind) in enumerate(PAIRS) if kind == "time"}
    lab = new_lab(
        columns=dict.fromkeys(terms, "time"), partition_by=[term(each, name) for name, each in terms.items()]
    )
    here = replace(lab, is_here=True)
    set_upkeep(lab, compact_above=5)
    for _ in range(5):
        new_lab.produce(lab, as_json(dict.fromkeys(terms, "01:02:03.000004")))
        here.drain()
    here.replay(OffsetRange(0, 1, 2))
    with pytest.raises(ConfigError, match="spark-type"):
        tidy(lab, "compaction")
    assert lab.audit().is_clean
