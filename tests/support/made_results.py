"""What work on pipelines comes to, made by hand: for what commands tell of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cli.commands.state_word import PipelineFacts
from cli.commands.status import UpState
from cli.stand.run_record import UpRecord
from spark_jobs.acts.accept_source import Restart, SourceComparison
from spark_jobs.audit.counts import AuditResult
from spark_jobs.audit.findings import Finding, MetadataAudit, RoundedColumn
from spark_jobs.audit.row_place import RowPlace, Spot
from spark_jobs.audit.source_audit import SourceAudit
from spark_jobs.audit.trace import Trace
from spark_jobs.audit.trace_answers import Where
from spark_jobs.books.entries import BookEntry
from spark_jobs.books.fold import CheckpointResult
from spark_jobs.books.history import HistoryLine, State
from spark_jobs.checks.check import Severity
from spark_jobs.checks.facts import Removal
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.export.export import Exported
from spark_jobs.health.judge import CheckResult
from spark_jobs.notices.notice import Failure
from spark_jobs.preview.preview import DeadLetterExample, PartitionUse, Preview
from spark_jobs.preview.recognition import Recognized, Use
from spark_jobs.protocol.batch import Balance, Batch, BatchCounts, Pause
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.work import layout_named
from spark_jobs.recovery.decide import HeldBatch, RecoveryResult
from spark_jobs.replay.diff import Change, ReplayDiff
from spark_jobs.replay.plan import FileCounts, ReplayPlan
from spark_jobs.replay.rebuild import RebuildResult
from spark_jobs.replay.redrive import RedriveResult
from spark_jobs.replay.replay import ReplayResult
from spark_jobs.replay.trial_rows import RedriveTrial
from spark_jobs.schema.evidence import Evidence
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.kind import Due, UpkeepOutcome
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import TableUpkeep, UpkeepResult

NOW_MS = 1_790_000_000_000
WHY = ("--reason", "a test of ours")
NAMES = {"pipeline": "orders", "topic": "shop.orders", "table": "lake.orders"}
RANGES = OffsetRanges((OffsetRange(0, 10, 1_250), OffsetRange(2, 0, 7)))
PAUSE = Pause("a look at it", "ada@host", NOW_MS)
BALANCE = Balance(rows=1_200, dead_letters=40, tombstones=3, gaps=4, filtered=2)
COUNTS = BatchCounts({0: BALANCE}, 9_000, 5_000, 2, 1, {"decode": 40}, {"x": 2}, {})
BATCH = Batch(**NAMES, generation=0, ranges=RANGES, attempt="a-1", ingested_at_us=NOW_MS * 1000)
RESULT = BatchResult(BATCH, COUNTS, 4711, NOW_MS, {"tasks": 800}, {"read": 5}, 1 << 20)
HELD = HeldBatch(BATCH, COUNTS, "complete_orders", "price is below 0 in 3 rows", NOW_MS * 1000)
SOURCE = SourceState("shop.orders", "topic-2", "cluster-2", {0: 0, 2: 0}, {0: 2_000, 2: 7})
PROGRESS = Progress("shop.orders", 1, {0: 1_250, 2: 7}, "cluster-1", "topic-1")
RECOVERED = RecoveryResult()

Answer = Callable[..., Any]


def gives(value: Any) -> Answer:
    """Return what answers that, whatever it is asked."""
    return lambda *_, **__: value


def entry(**more: Any) -> BookEntry:
    """Return an attempt as the books have it."""
    known: dict[str, Any] = {
        **NAMES,
        "table_uuid": "uuid",
        "kind": "drain",
        "batch_id": "drain-1",
        "attempt": "a-1",
        "generation": 0,
        "ranges": RANGES,
        "is_landed": True,
        "counts": COUNTS,
        "snapshot_id": 4711,
        "dead_letter_snapshot_id": None,
        "durations_ms": {"tasks": 800, "commit": 200},
        "reason": "",
        "actor": "ada@host",
        "run_id": "cli-1",
        "sluice_version": "0.1.0",
        "started_at_us": NOW_MS * 1000,
        "finished_at_us": NOW_MS * 1000 + 1_000_000,
        "valid_through_ms": NOW_MS,
    }
    return BookEntry(**{**known, **more})


def upkept(*_: Any, **__: Any) -> UpkeepResult:
    """Return what a compaction did to a table, and that nothing was to be done to the other."""
    before, after = TableFigures(data_files=1_200, small_files=1_190), TableFigures(data_files=12)
    did = TableUpkeep(
        "lake.orders", before, after, UpkeepOutcome({"files_rewritten": 1_190, "left": 0}), 4_200
    )
    idle = TableUpkeep("lake.orders_dead", after, after, UpkeepOutcome(note="nothing is small"), 12)
    return UpkeepResult("compaction", (did, idle))


def fails(*_: Any, **__: Any) -> Any:
    """Fail as an upkeep does that another came before."""
    raise RetryableError("somebody else commits", code="conflict", hint="Again.")


def exported(_: Any, __: Any, target: str, *___: Any, on_progress: Any, **____: Any) -> Exported:
    """Tell how far it is, and what came of it."""
    on_progress(700, 1_400)
    return Exported(target, tuple(RANGES), {0: 5, 2: 0}, {0: 1_235, 2: 7}, ("offsets 3-4 are a gap",))


def told(value: Any, *progress: Any) -> Answer:
    """Return what says how far it is, once, and gives that."""

    def answer(*_: Any, on_progress: Any, **__: Any) -> Any:
        on_progress(*progress)
        return value

    return answer


def comparison(**more: Any) -> SourceComparison:
    """Return a topic beside the table's source, another one unless said otherwise."""
    known = {
        "progress": PROGRESS,
        "source": SOURCE,
        "compared": 3,
        "same": 0,
        "objections": ("0:5 is not so",),
    }
    return SourceComparison(**{**known, **more})


def health(*_: Any) -> Any:
    """Return a pipeline with a check that fails."""
    facts: Any = None
    mend = "./sluice audit orders"
    failed = CheckResult("exact", Severity.ERROR, False, "3 are missing", {"missing": 3.0}, mend)
    passed = CheckResult("fresh", Severity.WARN, True, "12 s behind")
    return [SimpleNamespace(pipeline=pipeline(), facts=facts, results=(failed, passed))]


def pipeline(**settings: Any) -> PipelineConfig:
    """Return the pipeline with these settings."""
    return PipelineConfig.model_validate(
        {"name": "orders", "topic": "shop.orders", "table": "lake.orders", **settings}
    )


def facts(*_: Any) -> list[PipelineFacts]:
    """Return two pipelines, one of which failed."""
    failed = Failure("Kafka is away", "broker-away", "See whether it runs.", NOW_MS, NOW_MS - 5_000, 3)
    one = PipelineFacts(pipeline(), NOW_MS, True, lag=0, committed_at_ms=NOW_MS - 60_000)
    other = pipeline(name="customers", topic="shop.customers", table="lake.customers", hot={})
    behind = PipelineFacts(other, NOW_MS, True, lag=1_234, committed_at_ms=NOW_MS, failures={"drain": failed})
    return [one, behind]


TAIL = {
    "pipeline": "customers",
    "state": "live",
    "hot_rows": 1_200,
    "hot_bytes": 2_500_000,
    "age_ms": 12,
    "watermark": "0:1234",
    "reason": {"message": "too slow", "code": "slow", "hint": "Give it more."},
}
PREVIEW = Preview(
    "shop.orders",
    "lake.orders",
    is_new=True,
    balance=BALANCE,
    evidence=Evidence(),
    columns=(),
    added=(),
    dead_letters=tuple(DeadLetterExample(0, 1_000 + n, "price", "not a number") for n in range(12)),
    partitioning=(PartitionUse("day(at)", 3), PartitionUse("id", None)),
    ignored={},
    notes=("a note",),
    found=(
        Recognized("the values are CSV", {"value": {"format": "csv"}}, Use.VALUES),
        Recognized("one key each", {"layout": "mirror"}, Use.INSTEAD),
    ),
    filtered_reasons={"x": 2},
)
PLAN = ReplayPlan(SimpleNamespace(), SOURCE, tuple(RANGES), (OffsetRange(0, 1_900, 2_100),))  # type: ignore[arg-type]
DIFF = ReplayDiff(
    1, 2, 3, 4, 5, 6, 7, 8, ["size: long"], Counter({"price": 3}), [Change("0:5", "price", "1", "2")]
)
REPLAYED = ReplayResult("orders", "lake.orders", tuple(RANGES), (), (RESULT,), RECOVERED)
REDRIVEN = RedriveResult("orders", "lake.orders", (RESULT,), {"too large": 2}, RECOVERED)
REBUILT = RebuildResult("customers", "lake.customers", (RESULT,), RECOVERED)
TRIAL = RedriveTrial(
    1_000,
    Counter({"x": 1}),
    Counter({"decode": 2}),
    ["0:5 (decode) no JSON"],
    {"too large": 2},
    ["size: long"],
)
LINES = (
    HistoryLine(entry(), State.LANDED),
    HistoryLine(
        entry(
            attempt="a-2",
            snapshot_id=None,
            is_landed=False,
            ranges=OffsetRanges(tuple(OffsetRange(p, 0, 1) for p in range(5))),
        ),
        State.UNFINISHED,
        "FlushStart",
    ),
    HistoryLine(entry(attempt="a-3", kind="pause", reason="a look"), State.LANDED),
)
NO_FAILURES: Any = SimpleNamespace(last={"drain": SimpleNamespace(attempt="a-2", message="a disk was full")})
PLACE = RowPlace("file:///lake/data/one.parquet", 17, {})
REMOVAL = Removal(4712, "delete", NOW_MS, 3)
TRACES = (
    Trace("shop.orders", Spot(0, 0, 5), Where.ROW, "it is there", entry(), PLACE, 4711),
    Trace("shop.orders", Spot(1, 0, 5), next(iter(Where)), "not yet"),
    Trace("shop.orders", Spot(1, 0, 6), list(Where)[-1], "", None, None, None, REMOVAL),
)
AUDITED = AuditResult(
    **NAMES,
    rows=1_200,
    dead_letters=40,
    tombstones=3,
    rounded=2,
    foreign=1,
    outdated=3,
    snapshots=4,
    lag=5,
    outdated_ranges=tuple(RANGES),
    rounded_columns=(RoundedColumn("price", "decimal(20,0)", 2),),
    examples=("0:5",),
    passed={"schema_changes": 2},
)
CLEAN = AuditResult(**NAMES, rows=5)
KEYS = AuditResult(**NAMES, layout=layout_named("mirror"), rows=28, folded=72, gone=3)
FILES = MetadataAudit(
    **{k: NAMES[k] for k in ("pipeline", "table")}, snapshots=3, data_files=1_200, data_bytes=9_999
)
DAMAGED = MetadataAudit(
    "orders", "lake.orders", findings=[Finding("a file is gone", "one.parquet", "./sluice x")]
)
SAME = SourceAudit("customers", "lake.customers", 1_000, 1_000, ("id", "name"), ("photo",))
OTHER = SourceAudit("customers", "lake.customers", 1, 2, ("id",), (), 1, False, ("id 5: gone",))

COMPACTION, LOG = Due(BY_NAME["compaction"], "1,190 small files"), "5,000 objects"
WITH_DUE = {
    "spark_jobs.upkeep.upkeep.upkeep_due": gives((COMPACTION,)),
    "spark_jobs.upkeep.upkeep.log_due": gives(LOG),
}
FOLDED = CheckpointResult("lake.sluice_batches", 120, 119, 5, 5_000, 20)
PLANNED = {
    "spark_jobs.replay.plan.plan_replay": gives(PLAN),
    "spark_jobs.replay.plan.files_to_replace": gives(FileCounts(3, 1)),
    "spark_jobs.replay.plan.is_compacted": gives(True),
    "spark_jobs.replay.diff.diff_replay": told(DIFF, 600, 1_247),
    "spark_jobs.replay.replay.replay": told(REPLAYED, RESULT, 1_247, 1_247),
}
REBUILDING = {
    "spark_jobs.replay.rebuild.begins_at": gives(None),
    "spark_jobs.replay.rebuild.rebuild_ranges": gives(RANGES),
    "spark_jobs.replay.rebuild.rebuild": gives(REBUILT),
}
ACCEPTED = SimpleNamespace(progress=PROGRESS)
ACCEPTING = {
    "spark_jobs.acts.act.settle": gives(None),
    "spark_jobs.acts.accept_source.accept_source": gives(ACCEPTED),
    "spark_jobs.acts.accept_source.accept_restart": gives(ACCEPTED),
}


def compared(value: SourceComparison, restart: Restart | None = None) -> dict[str, Answer]:
    """Return what answers that to ``source``."""
    found = {"compare_source": gives(value), "find_restart": gives(restart)}
    return {f"spark_jobs.acts.accept_source.{name}": answer for name, answer in found.items()} | ACCEPTING


CUT = comparison(same=3, objections=(), unshown=(OffsetRange(0, 1_250, 1_260),))
UNCHANGED = comparison(
    source=SourceState("shop.orders", "topic-1", "cluster-1", {0: 0, 2: 0}, {0: 2_000, 2: 7}), same=3
)
RESTART = Restart(PROGRESS, {0: 77})
LOOK = {
    "cli.commands.status._facts": facts,
    "cli.commands.status.followed": gives([TAIL]),
    "cli.commands.status.up_state": gives(
        UpState(UpRecord(7, "./sluice up", NOW_MS - 9_000), NOW_MS - 3_000, NOW_MS)
    ),
}
