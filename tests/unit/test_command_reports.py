"""What commands print of what was done, to people and to programs, letter by letter.

``python -m tests.unit.test_command_reports`` writes the file that it is held to.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from cli.app import main
from spark_jobs.acts.rollback import RolledBack
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.recovery.decide import AdoptedBatch, RecoveryResult
from spark_jobs.reshape.repartition import Repartitioned
from spark_jobs.reshape.retype import Retyped
from tests.support.made_results import (
    AUDITED,
    BATCH,
    CLEAN,
    COUNTS,
    CUT,
    DAMAGED,
    FILES,
    FOLDED,
    HELD,
    KEYS,
    LINES,
    LOOK,
    NO_FAILURES,
    OTHER,
    PAUSE,
    PLANNED,
    PREVIEW,
    PROGRESS,
    RANGES,
    REBUILDING,
    RECOVERED,
    REDRIVEN,
    RESTART,
    RESULT,
    SAME,
    TRACES,
    TRIAL,
    UNCHANGED,
    WHY,
    WITH_DUE,
    Answer,
    compared,
    comparison,
    exported,
    facts,
    fails,
    gives,
    health,
    told,
    upkept,
)

PRINTED = Path(__file__).parents[1] / "support" / "command_reports.txt"
CONFIGURATION = """\
version: 1
kafka: {bootstrap.servers: "nowhere.invalid:9092"}
pipelines:
  orders: {topic: shop.orders, table: lake.orders}
  customers: {topic: shop.customers, table: lake.customers, layout: mirror}
"""
# What is typed, and what the work answers; with --json it is run once more.
ACTS = "spark_jobs.acts"
CASES: tuple[tuple[tuple[str, ...], dict[str, Answer]], ...] = (
    (("pause", "orders", *WHY), {f"{ACTS}.act.pause": gives(PAUSE)}),
    (("pause", "orders"), {}),
    (("pause", "nobody", *WHY), {}),
    (("resume", "orders", *WHY), {f"{ACTS}.act.resume": gives(PAUSE)}),
    (("resume", "orders", *WHY), {f"{ACTS}.act.resume": gives(None)}),
    (
        ("skip", "orders", "2:0-7", "0:10-1250", *WHY),
        {f"{ACTS}.act.skip": gives(SimpleNamespace(snapshot_id=4711, progress=PROGRESS))},
    ),
    (("skip", "orders", "2:0-7", "2:10-1250", *WHY), {}),
    (("skip", "orders", "2:x", *WHY), {}),
    (
        ("rollback", "orders", "--to", "4711", "--force", *WHY),
        {f"{ACTS}.rollback.rollback": gives(RolledBack(4711, 4720, RANGES, RANGES, {0: 10, 2: 0}))},
    ),
    (
        ("rollback", "orders", "--to", "2026-11-21T10:00", *WHY),
        {f"{ACTS}.rollback.rollback": gives(RolledBack(4711, 4720, OffsetRanges(()), OffsetRanges(()), {}))},
    ),
    (
        ("retype", "orders", "price", "decimal(38,0)", *WHY),
        {
            "spark_jobs.reshape.retype.retype": told(
                Retyped("price", "price_1", 3, 2), "4 files checked, 3 rewritten"
            )
        },
    ),
    (
        ("repartition", "orders", *WHY),
        {"spark_jobs.reshape.repartition.repartition": gives(Repartitioned((), ("day(at)", "id"), 4711))},
    ),
    (("held", "list", "orders"), {f"{ACTS}.held_batches.held_batches": gives((HELD,))}),
    (("held", "list", "orders"), {f"{ACTS}.held_batches.held_batches": gives(())}),
    (
        ("held", "publish", "orders", *WHY),
        {f"{ACTS}.held_batches.publish": gives(AdoptedBatch(BATCH, COUNTS, 4711))},
    ),
    (("held", "discard", "orders", "a-1", *WHY), {f"{ACTS}.held_batches.discard": gives(HELD)}),
    (("rebuild", "customers", *WHY), REBUILDING),
    (("rebuild", "customers", "--dry-run"), REBUILDING),
    (("rebuild", "customers"), REBUILDING),
    (
        ("redrive", "orders", *WHY),
        {"spark_jobs.replay.redrive.redrive": told(REDRIVEN, RESULT, 1_247, 1_247)},
    ),
    (("redrive", "orders", "--dry-run"), {"spark_jobs.replay.trial_rows.try_redrive": gives(TRIAL)}),
    (("redrive", "orders"), {}),
    (("replay", "orders", "--range", "0:10-1250", *WHY), PLANNED),
    (("replay", "orders", "--range", "0:10-1250", "--dry-run"), PLANNED),
    (("replay", "orders", "--range", "0:10-1250", "--diff"), PLANNED),
    (("replay", "orders", "--range", "0:10-1250", "--diff", "--yes", *WHY), PLANNED),
    (("replay", "orders", "--range", "0:10-1250", "--diff", *WHY), PLANNED),
    (("replay", "orders", "--range", "0:10-1250"), {}),
    (("replay", "orders", *WHY), {}),
    (
        ("replay", "orders", "--range", "0:10-1250", *WHY),
        {**PLANNED, "spark_jobs.replay.plan.is_compacted": fails},
    ),
    (("source", "orders"), compared(comparison())),
    (("source", "orders"), compared(comparison(cut=(0,)))),
    (("source", "orders"), compared(UNCHANGED)),
    (("source", "orders"), compared(UNCHANGED, RESTART)),
    (("source", "orders", "--accept"), {}),
    (("source", "orders", "--accept", *WHY), compared(comparison())),
    (("source", "orders", "--accept", *WHY), compared(CUT)),
    (("source", "customers", "--accept", *WHY), compared(UNCHANGED, RESTART)),
    (("source", "orders", "--accept", *WHY), compared(UNCHANGED)),
    (
        ("upkeep", "orders"),
        {
            **WITH_DUE,
            "spark_jobs.upkeep.upkeep.run_upkeep": upkept,
            "spark_jobs.books.fold.checkpoint": gives(FOLDED),
        },
    ),
    (("upkeep", "orders", "--dry-run"), {**WITH_DUE, "spark_jobs.upkeep.upkeep.run_upkeep": upkept}),
    (("upkeep", "orders", "--only", "compaction"), {"spark_jobs.upkeep.upkeep.run_upkeep": fails}),
    (
        ("upkeep", "orders"),
        {"spark_jobs.upkeep.upkeep.upkeep_due": gives(()), "spark_jobs.upkeep.upkeep.log_due": gives(None)},
    ),
    (("audit", "orders"), {"spark_jobs.audit.audit.audit": gives(AUDITED)}),
    (("audit", "orders"), {"spark_jobs.audit.audit.audit": gives(CLEAN)}),
    (("audit", "orders"), {"spark_jobs.audit.audit.audit": gives(KEYS)}),
    (("audit", "orders", "--metadata"), {"spark_jobs.audit.metadata.audit_metadata": told(FILES, FILES)}),
    (
        ("audit", "orders", "--metadata", "--pages"),
        {"spark_jobs.audit.metadata.audit_metadata": told(DAMAGED, FILES)},
    ),
    (("audit", "orders", "--pages"), {}),
    (
        ("audit", "customers", "--source"),
        {"spark_jobs.audit.source_audit.audit_source": told(SAME, "a look")},
    ),
    (
        ("audit", "customers", "--source"),
        {"spark_jobs.audit.source_audit.audit_source": told(OTHER, "a look")},
    ),
    (
        ("history", "orders"),
        {
            "spark_jobs.books.history.history": gives(LINES),
            "spark_jobs.books.history.unlisted_drains": gives(2),
            "spark_jobs.notices.failures.read_failures": gives(NO_FAILURES),
        },
    ),
    (
        ("history", "orders"),
        {
            "spark_jobs.books.history.history": gives(()),
            "spark_jobs.books.history.unlisted_drains": gives(0),
            "spark_jobs.notices.failures.read_failures": gives(SimpleNamespace(last={})),
        },
    ),
    (("trace", "orders", "0:5"), {"spark_jobs.audit.trace.trace": gives(TRACES)}),
    (("trace", "orders", "--key", "k"), {"spark_jobs.audit.trace.trace_key": gives(TRACES[:1])}),
    (("trace", "orders", "x"), {}),
    (("trace", "orders"), {}),
    (("export", "orders", "--to", "copy"), {"spark_jobs.export.export.export": exported}),
    (("export", "orders", "--to", "copy", "--dry-run"), {"spark_jobs.export.export.export": exported}),
    (("checks", "orders"), {"cli.commands.checks.check_up": health}),
    (("checks",), {}),
    (("validate",), {}),
    (("status",), LOOK),
    (("status", "orders"), {**LOOK, "cli.commands.status._facts": lambda _: facts()[:1]}),
    (("preview", "orders"), {"spark_jobs.preview.preview.preview": gives(PREVIEW)}),
    (
        ("recover",),
        {
            "spark_jobs.replay.replay.settle_left_replays": gives(RECOVERED),
            "spark_jobs.recovery.recover.recover": gives(RecoveryResult(("a",), (), (), ("b", "c"), 3)),
            "spark_jobs.notices.sender.send_pending": gives(None),
        },
    ),
)
WITHOUT_JSON = frozenset({"preview", "recover", "validate"})


def run(words: tuple[str, ...], answers: dict[str, Answer]) -> str:
    """Return all that a command prints, its exit code, and what it opened for which kind of work."""
    out, err, opened = io.StringIO(), io.StringIO(), []

    @contextlib.contextmanager
    def connections(
        _config: Any, name: str, *, kind: str, needs_kafka: bool = True, **_: Any
    ) -> Iterator[Any]:
        opened.append(f"{name or 'all'} for {kind}{'' if needs_kafka else ', without Kafka'}")
        yield SimpleNamespace(admin=None)

    with contextlib.ExitStack() as patched:
        patched.enter_context(contextlib.redirect_stdout(out))
        patched.enter_context(contextlib.redirect_stderr(err))
        patched.enter_context(patch("cli.work.open_connections", connections))
        patched.enter_context(patch("assets.reports.instance_home", gives(None)))
        for name, answer in answers.items():
            patched.enter_context(patch(name, answer))
        code = main(list(words))
    parts = [
        f"$ {' '.join(words)}",
        out.getvalue().rstrip("\n"),
        *(f"! {line}" for line in err.getvalue().splitlines()),
    ]
    return "\n".join([*filter(None, parts), f"= {code}; {', '.join(opened) or 'nothing'}", ""])


def printed() -> str:
    """Return all that the cases print."""
    texts = []
    for words, answers in CASES:
        texts.append(run(words, answers))
        if answers and words[0] not in WITHOUT_JSON:
            texts.append(run((*words, "--json"), answers))
    return "\n".join(texts)


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two pipelines, and a state folder that is empty."""
    monkeypatch.setenv("SLUICE_CONFIG_YAML", CONFIGURATION)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))


def test_what_commands_print_is_as_it_was() -> None:
    """A word, a column or a key of a report changes in the file as well: nobody changes it unseen."""
    assert printed() == PRINTED.read_text(encoding="utf-8")


if __name__ == "__main__":
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"SLUICE_CONFIG_YAML": CONFIGURATION, "SLUICE_HOME": home}
        PRINTED.write_text(printed(), encoding="utf-8")
