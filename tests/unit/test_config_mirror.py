"""``layout: mirror``: what is in force without a word, and what cannot be said of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_jobs.config.build import ConfigReading, build_config
from spark_jobs.config.columns import Incompatible
from spark_jobs.config.expressions import judge_expressions
from spark_jobs.config.problems import Document
from spark_jobs.config.sections import BadChanges
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.work import layout_named
from spark_jobs.replay.plan import plan_replay
from spark_jobs.replay.redrive_plan import Selection, plan_redrive
from spark_jobs.reshape.repartition import repartition

EXPECTED = [{"expect_column_values_to_not_be_null": {"column": "a"}}]
GATE = {"name": "g", "when": "gate", "expectations": EXPECTED}
UPSERT = {"envelope": "upsert"}
NOTHING: Any = None
REBUILD = "./sluice rebuild a --reason"


def _build(pipeline: dict[str, Any], defaults: dict[str, Any] | None = None) -> ConfigReading:
    content = {
        "version": "1",
        "sources": {"shop": "${SHOP}"},
        "defaults": defaults or {},
        "pipelines": {"customers": {"topic": "shop.customers", "table": "shop.customers", **pipeline}},
    }
    main = Document("sluice.yaml", content)
    return build_config(main, (), home="/home", folder="/folder", judge=judge_expressions)


def _mirror(**settings: Any) -> PipelineConfig:
    built = _build({"layout": "mirror", **settings})
    assert not built.problems, built.problems
    assert built.config is not None
    return built.config.pipelines[0]


def test_a_mirror_stops_where_its_rows_would_be_wrong() -> None:
    """At a change that is bad and at a type that does not fit, unless something else is written."""
    plain = _mirror()
    assert plain.layout == "mirror"
    assert plain.envelope == "debezium"
    assert plain.mirror.bad_changes is BadChanges.STOP
    assert plain.table_schema.incompatible is Incompatible.STOP
    assert _mirror(schema={"incompatible": "new_column"}).table_schema.incompatible is Incompatible.NEW_COLUMN
    said = _mirror(mirror={"bad_changes": "dead_letters", "key": "id", "source": "shop"}).mirror
    assert (said.bad_changes, said.key, said.source) == (BadChanges.DEAD_LETTERS, ("id",), "shop")
    assert _mirror(layout="changes").table_schema.incompatible is Incompatible.NEW_COLUMN


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"filter": "id > 1"}, "filter"),
        ({"route": {"by": "kind", "tables": {"refund": "shop.refunds"}}}, "route"),
        ({"sort_by": ["id"]}, "sort_by"),
        ({"partition_by": ["day(_kafka_timestamp)"]}, "partition_by"),
        ({"hot": "true"}, "hot"),
        ({"columns": {"a": {"type": "long", "sql": "id + 1"}}}, "columns.a.sql"),
        ({"columns": {"a": {"type": "string", "jmespath": "b"}}}, "columns.a.jmespath"),
        ({"columns": {"_cdc_row_id": "string"}}, "columns._cdc_row_id"),
        ({"quality": [{**GATE, "on_failure": "dead_letters"}]}, "quality"),
        ({"value": {"format": "raw"}}, "value.format"),
        ({"mirror": {"source": "other"}}, "mirror.source"),
        ({"mirror": {"source": "shop"}, "cdc": UPSERT}, "mirror.source"),
        ({"layout": "changes", "mirror": {"key": "id"}}, "mirror"),
        ({"layout": "flat", "mirror": {"bad_changes": "stop"}}, "mirror"),
    ],
)
def test_what_cannot_be_said_of_a_mirror_is_refused(settings: dict[str, Any], wrong: str) -> None:
    """Each with the key and what to write in its place."""
    problems = _build({"layout": "mirror", **settings}).problems
    assert f"pipelines.customers.{wrong}" in {problem.key for problem in problems}
    assert all(problem.hint for problem in problems)


def test_what_a_mirror_may_have_is_taken() -> None:
    """A gate that holds its batches, records without positions, and defaults that are for other layouts."""
    _mirror(quality=[{**GATE, "on_failure": "hold"}], cdc=UPSERT)
    assert not _build({}, {"mirror": {"bad_changes": "dead_letters"}}).problems


@pytest.mark.parametrize(
    ("act", "code", "said"),
    [
        (lambda mirror: plan_replay(mirror, NOTHING, ()), "mirror-replay", REBUILD),
        (
            lambda mirror: plan_redrive(mirror, NOTHING, None, Selection()),
            "mirror-replay",
            REBUILD,
        ),
        (
            lambda mirror: repartition(mirror, NOTHING, reason="r"),
            "cannot-repartition",
            "Leave the table unpartitioned",
        ),
    ],
)
def test_acts_that_a_mirror_has_not_are_refused_before_anything_is_looked_at(
    act: Callable[[Any], object], code: str, said: str
) -> None:
    """By name, with what to type instead."""
    mirror = PipelineConfig(name="a", topic="t", table="l.a", layout=layout_named("mirror"))
    with pytest.raises(ConfigError) as raised:
        act(mirror)
    assert raised.value.code == code
    assert said in raised.value.hint
