"""The nested sections of a pipeline: ``upkeep`` and ``dead_letters``."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from pydantic import BaseModel

from spark_jobs.checks.registry import BY_NAME
from spark_jobs.config.build import build_config
from spark_jobs.config.file_models import WrittenFile, _model_in
from spark_jobs.config.problems import Document


def _build(defaults: dict, pipeline: dict):
    content = {
        "version": "1",
        "defaults": defaults,
        "pipelines": {"orders": {"topic": "orders", "table": "lake.orders", **pipeline}},
    }
    return build_config(Document("sluice.yaml", content), (), home="/home", folder="/folder")


def test_sections_merge_key_by_key() -> None:
    """A pipeline changes one key of a section and keeps the others of the defaults."""
    built = _build(
        {"upkeep": {"keep_snapshots": "7", "keep_snapshots_for": "2h"}, "dead_letters": {"stop_above": "5%"}},
        {"upkeep": {"keep_snapshots": "9"}},
    )
    assert not built.problems
    assert built.config is not None
    pipeline = built.config.pipelines[0]
    assert pipeline.upkeep.keep_snapshots == 9
    assert pipeline.upkeep.keep_snapshots_for_seconds == 7200
    assert pipeline.upkeep.compact_above == 20
    assert pipeline.dead_letters.stop_above == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("section", "key", "told"),
    [
        ({"upkeep": {"keep_snapshot": "7"}}, "upkeep.keep_snapshot", "Did you mean keep_snapshots?"),
        ({"upkeep": {"orphans_older_than": "2h"}}, "upkeep.orphans_older_than", "at least 1d"),
        ({"dead_letters": {"stop_above": "500%"}}, "dead_letters.stop_above", "for example 5%"),
        ({"dead_letters": {"stop_above": "many"}}, "dead_letters.stop_above", "for example 5%"),
    ],
)
def test_mistakes_in_sections_are_named_with_their_key(section, key, told) -> None:
    """The dotted key, and what to write instead."""
    (problem,) = _build({}, section).problems
    assert problem.key == f"pipelines.orders.{key}"
    assert told in problem.hint


@pytest.mark.parametrize(
    ("defaults", "own", "memory_bytes"),
    [
        ({}, {}, None),
        ({}, {"hot": "true"}, 500_000_000),
        ({"hot": "true"}, {}, 500_000_000),
        ({"hot": {"memory": "1MB"}}, {"hot": "true"}, 1_000_000),
        ({"hot": "true"}, {"hot": {"memory": "2MB"}}, 2_000_000),
        ({"hot": {"memory": "1MB"}}, {"hot": "false"}, None),
    ],
)
def test_what_is_shown_early_is_one_word_or_a_map(defaults, own, memory_bytes) -> None:
    """A pipeline may switch off what the defaults say, and keeps what it does not say otherwise."""
    built = _build(defaults, own)
    assert not built.problems
    assert built.config is not None
    hot = built.config.pipelines[0].hot
    assert (hot and hot.memory_bytes) == memory_bytes


def test_what_nobody_has_judged_is_not_shown_early() -> None:
    """A gate's pipeline is refused, an archive, and routes; the hint works as it is written."""
    expect = {"expectations": [{"expect_column_to_exist": {"column": "id"}}]}
    for settings in (
        {"quality": [{"name": "strict", "when": "gate", **expect}]},
        {"layout": "archive"},
        {"route": {"by": "kind", "tables": {"refund": "lake.refunds"}}},
    ):
        (problem,) = _build({}, {"hot": "true", **settings}).problems
        assert (problem.key, "hot: false" in problem.hint) == ("pipelines.orders.hot", True)
        assert not _build({}, {"hot": "false", **settings}).problems
    after = [{"name": "later", **expect}]
    assert not _build({}, {"hot": "true", "quality": after}).problems


def test_a_webhook_is_a_url_that_is_shown_nowhere() -> None:
    """Not even in the mistake of one that is no URL."""
    built = _build({"notify": {"webhook": "https://hooks.example/T0/s3cr3t"}}, {})
    assert built.config is not None
    webhook = built.config.pipelines[0].notify.webhook
    assert webhook is not None
    assert webhook.get_secret_value() == "https://hooks.example/T0/s3cr3t"
    assert "s3cr3t" not in f"{built.config!r} {built.config.model_dump()} {built.config.model_dump_json()}"
    (problem,) = _build({}, {"notify": {"webhook": "hooks.example/s3cr3t"}}).problems
    assert problem.key == "pipelines.orders.notify.webhook"
    assert "s3cr3t" not in str(problem)


EVERY_SECTION = {
    "include": [{"files": "teams/*.yaml"}],
    "version": "1",
    "catalog": {"name": "lake", "uri": "http://catalog:8181"},
    "spark": {"task_memory": "1GiB", "master": "local[2]"},
    "runs": {"start": "spawn"},
    "listeners": {"hosts": "sluice.example.com", "tls": {"cert": "/all.pem"}},
    "ui": {"listen": "[::1]:3000", "tls": {"cert": "/ui.pem"}},
    "metrics": {"listen": "off", "tls": {"cert": "/metrics.pem"}},
    "catalog_server": {"listen": "off", "tls": {"cert": "/catalog.pem"}},
    "serve": {"listen": "off", "tls": {"cert": "/serve.pem"}},
    "gateway": {
        "listen": "off",
        "tls": {"cert": "/gateway.pem"},
        "streams": {"clicks": {"topic": "clicks"}},
    },
    "registries": {"main": {"kind": "glue", "url": "http://registry:8081"}},
    "pipelines": {
        "orders": {
            "topic": "orders",
            "table": "lake.orders",
            "upkeep": {"keep_snapshots": "7"},
            "dead_letters": {"stop_above": "5%"},
            "columns": {"total": {"type": "long"}},
            "checks": {"fresh": "1h", "lag": "9", "dead_letters": "2%", "off": "stall"},
            "notify": {"webhook": "https://hooks.example"},
            "quality": [{"name": "ids", "expectations": [{"expect_column_to_exist": {"column": "id"}}]}],
        }
    },
}


def _keys_that_may_be_left_out(model: type[BaseModel], *place: str | int) -> Iterator[tuple[str | int, ...]]:
    for name, field in model.model_fields.items():
        inner = {
            "pipelines": ("orders",),
            "registries": ("main",),
            "quality": (0,),
            "include": (0,),
            "streams": ("clicks",),
            "columns": ("total",),
        }.get(name, ())
        section = _model_in(field.annotation)
        if section and name != "defaults":
            yield from _keys_that_may_be_left_out(section, *place, field.alias or name, *inner)
        if not field.is_required() and name not in {"topic", "topics", "topics_regex", "pipelines"}:
            yield (*place, field.alias or name)


@pytest.mark.parametrize(
    "place", list(_keys_that_may_be_left_out(WrittenFile)), ids=lambda place: ".".join(map(str, place))
)
def test_a_key_without_a_value_is_one_left_out(place: tuple[str | int, ...]) -> None:
    """Wherever it stands: a key or a section whose lines are all commented out changes nothing."""
    empty, without = deepcopy(EVERY_SECTION), deepcopy(EVERY_SECTION)
    for content, change in ((empty, lambda section, key: section.update({key: None})), (without, _leave_out)):
        section: Any = content
        for key in place[:-1]:
            section = section[key] if isinstance(section, list) else section.setdefault(key, {})
        change(section, place[-1])
    found, meant = (
        build_config(Document("sluice.yaml", content), (), home="/home", folder="/folder")
        for content in (empty, without)
    )
    assert (found.config, found.problems) == (meant.config, ())


def _leave_out(section: dict[str, Any], key: str) -> None:
    section.pop(key, None)


def test_checks_merge_down_to_lists_and_limits() -> None:
    """A pipeline changes the limit of a check and keeps the lists of the defaults; the rest are errors."""
    built = _build(
        {"checks": {"warn": "fresh", "off": ["schema"], "fresh": "5m"}},
        {"checks": {"fresh": "1h", "dead_letters": "0%"}},
    )
    assert not built.problems
    assert built.config is not None
    checks = built.config.pipelines[0].checks
    fresh, schema, dead_letters = (BY_NAME[name] for name in ("fresh", "schema", "dead_letters"))
    assert (checks.severity_of(fresh), checks.limit_of(fresh)) == ("warn", 3600)
    assert (checks.severity_of(schema), checks.limit_of(schema)) == ("off", None)
    assert (checks.severity_of(dead_letters), checks.limit_of(dead_letters)) == ("error", 0)


@pytest.mark.parametrize(
    ("checks", "key", "told"),
    [
        ({"frseh": "1h"}, "frseh", "Did you mean fresh?"),
        ({"off": ["frseh"]}, "off.0", "Did you mean fresh?"),
        ({"fresh": "7"}, "fresh", "30s"),
        ({"complete": "7"}, "complete", "Known here: "),
        ({"fresh": {"limit": "7m"}}, "fresh", "A limit is fresh: LIMIT"),
        ({"schema": {"severity": "off"}}, "schema", "off: [schema]"),
    ],
)
def test_mistakes_in_checks_are_named_with_their_key(checks, key, told) -> None:
    """Names, units and what a check does not have."""
    (problem,) = _build({}, {"checks": checks}).problems
    assert problem.key == f"pipelines.orders.checks.{key}"
    assert told in problem.hint
