"""What ``check`` says of many pipelines, ``preview`` of nothing, ``--fresh`` of one that is never hot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from cli.commands import check_steps
from cli.commands.check import command
from cli.commands.check_steps import Checklist, Shared, check_pipeline, check_shared
from cli.commands.preview import _print
from spark_jobs.config.settings import CatalogSettings, PipelineConfig, SluiceConfig
from spark_jobs.hot.fresh import read_fresh
from spark_jobs.protocol.batch import Balance
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.connections.kafka_admin import KafkaAdmin


@pytest.mark.parametrize("why", [None, "SLUICE_NATIVE is 0"])
def test_a_task_without_webassembly_is_told_with_the_reason(
    why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its speed is not the local process's: the task itself says what it has."""
    monkeypatch.setattr(check_steps, "try_from_task", lambda *_: (check_steps.versions(), why))
    _, detail = check_steps._task(cast("Any", None), cast("Any", None))
    assert detail.startswith("broker and storage reached; ")
    assert ("WebAssembly is off (SLUICE_NATIVE is 0)" in detail) is (why is not None)


def orders(**settings: Any) -> PipelineConfig:
    """Return the pipeline with these settings."""
    return PipelineConfig.model_validate(
        {"name": "orders", "topic": "orders", "table": "lake.orders", **settings}
    )


def refuse() -> NoReturn:
    """Fail as a step does."""
    raise ConfigError("no such place", code="x", hint="Make one.")


@pytest.mark.parametrize(
    ("last", "is_brief", "lines"),
    [
        (lambda: (True, "b"), True, ["ok    orders   2 checks; a", "      pasted"]),
        (lambda: (True, "b"), False, ["ok    one   a", "ok    two   b", "      pasted"]),
        (
            refuse,
            True,
            [
                "ok    one   a",
                "FAIL  two   no such place",
                "hint: Make one.",
                "see: docs/reference/errors.md#x",
                "      pasted",
            ],
        ),
    ],
)
def test_a_pipeline_that_is_well_is_one_line_of_many(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    last: Callable[[], tuple[bool, str]],
    is_brief: bool,
    lines: list[str],
) -> None:
    """Of one that is not, and of one that was named, all steps are told; proposals always are."""

    def try_pipeline(checklist: Checklist, *_: object) -> None:
        checklist.run("one", lambda: (True, "a"))
        checklist.proposed.append("      pasted")
        checklist.run("two", last)

    monkeypatch.setattr(check_steps, "_try_pipeline", try_pipeline)
    check_pipeline(SluiceConfig.model_construct(), orders(), Shared(None, None, None), is_brief=is_brief)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == len(lines)
    for line, expected in zip(said, lines, strict=True):
        assert [word for word in expected.split() if word not in line.split()] == []


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({}, "retention 7 days, delete"),
        ({"retention.bytes": "1048576"}, "retention 7 days or 1MiB per partition, delete"),
        ({"cleanup.policy": "compact"}, "compacted: Kafka keeps the newest record of each key"),
        ({"cleanup.policy": "compact,delete"}, "retention 7 days, compact,delete"),
    ],
)
def test_a_topic_that_is_only_compacted_is_not_kept_for_a_time(policy: dict[str, str], told: str) -> None:
    """Its time is set, and deletes nothing."""

    class Admin:
        def topic_config(self, _: str) -> dict[str, str]:
            return {"retention.ms": "604800000", **policy}

    assert check_steps._retention(cast("KafkaAdmin", Admin()), "orders") == told


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({}, "Set `hot: true` for the pipeline"),
        ({"layout": "mirror"}, "Leave out --fresh"),
        ({"layout": "archive"}, "Leave out --fresh"),
        ({"route": {"by": "kind", "tables": {"a": "lake.a"}}}, "Leave out --fresh"),
    ],
)
def test_no_line_is_told_that_validate_refuses(settings: dict[str, Any], advice: str) -> None:
    """What can never be hot is not told to be made so."""
    connections: Any = None
    with pytest.raises(ConfigError) as refused:
        read_fresh(orders(**settings), connections)
    assert refused.value.hint.startswith(advice)


@pytest.mark.parametrize(
    ("settings", "is_new", "told"),
    [
        ({}, False, ["no records wait", "./sluice replay orders --all --diff"]),
        ({"layout": "mirror"}, False, ["no records wait", "./sluice audit orders"]),
        ({}, True, ["the topic has no records to read yet"]),
    ],
)
def test_a_preview_of_nothing_says_where_what_was_drained_is_compared(
    capsys: pytest.CaptureFixture[str], settings: dict[str, Any], is_new: bool, told: list[str]
) -> None:
    """By what tries today's configuration on it; a mirror's is its audit, and a new table has none."""
    seen: Any = SimpleNamespace(
        topic="orders",
        table="lake.orders",
        is_new=is_new,
        balance=Balance(),
        dead_letters=(),
        filtered_reasons={},
        routed_tables={},
    )
    _print(seen, orders(**settings))
    first, *last = capsys.readouterr().out.splitlines()
    assert first.endswith("nothing was written")
    assert [line.removeprefix("for drained records: ") for line in last] == told


def test_spark_is_started_once_for_all_pipelines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its start is a step of its own, which no pipeline's milliseconds have; without a broker it is left."""
    for step in ("_broker", "_catalog", "_state", "_spark"):
        monkeypatch.setattr(check_steps, step, lambda _, step=step: (step, "well"))
    config = SluiceConfig.model_construct(registries={})
    assert check_shared(Checklist(), config) == Shared("_broker", "_catalog", "_spark")  # type: ignore[arg-type]
    steps = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert steps == [["ok", each] for each in ("broker", "catalog", "state", "Spark")]
    monkeypatch.setattr(check_steps, "_broker", lambda _: refuse())
    monkeypatch.setattr(check_steps, "WorkSpark", lambda *_: SimpleNamespace(where=None))
    assert check_shared(Checklist(), config).session is None
    assert "skip  Spark" in capsys.readouterr().out


def test_a_deep_check_without_a_pipeline_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scratch tables lie in a pipeline's namespace: without one nothing is tested."""
    catalog = CatalogSettings(name="lake", properties={})
    empty = SluiceConfig(home="/", state="/log", kafka={}, catalog=catalog, pipelines=())
    asked: list[str] = []

    def check_nothing(*_: object, beside: str) -> Shared:
        asked.append(beside)
        return Shared(None, None, None)

    monkeypatch.setattr("cli.commands.check.load_config", lambda: empty)
    monkeypatch.setattr(check_steps, "check_shared", check_nothing)
    command.main(["--deep"], standalone_mode=False)
    assert asked == [""]
    assert "skip  catalog commits" in capsys.readouterr().out
