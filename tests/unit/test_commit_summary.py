"""The words of a commit's summary: they stay as they are, are read back, and are known in one place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from spark_jobs.protocol.batch import Balance, Batch
from spark_jobs.protocol.commit_summary import (
    CommitSummary,
    actor_summary,
    adoption_summary,
    attempt_summary,
    batch_summary,
    counts_summary,
    gate_summary,
    progress_summary,
    publication_summary,
)
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.works.drain import DRAIN

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "assets",
    "bench",
    "bootstrap",
    "cli",
    "gateway",
    "orchestration",
    "prove",
    "resources",
    "servers",
    "serving",
    "spark_jobs",
)
# Names of files that begin like a word of the table's.
FILES = {"sluice.yaml", "sluice.schema.json", "sluice.log"}
OWNERS = {
    "spark_jobs/protocol/commit_summary.py",
    "spark_jobs/protocol/progress.py",
    # Its report names to people the properties that somebody sets by hand in it.
    "prove/hostile/properties.py",
    # A subprotocol of WebSocket, which clients ask for.
    "gateway/tokens.py",
}
RANGES = OffsetRanges((OffsetRange(0, 3, 9), OffsetRange(10, 0, 4)))
BATCH = Batch("p", "db.t", "flights", 2, RANGES, "a-1", 1_000)


def test_every_word_is_written_as_versions_before_read_it() -> None:
    """Keys and values of a drain's commit, letter by letter."""
    balances = {10: Balance(rows=4), 0: Balance(rows=1, dead_letters=2, tombstones=3)}
    counts = counts_summary(BATCH, balances, bytes_read=77, kafka={"rtt": 5}, valid_through_ms=1_234)
    assert counts == {
        "sluice.balance": '{"0":[1,2,3,0],"10":[4,0,0,0]}',
        "sluice.records": "10",
        "sluice.bytes-read": "77",
        "sluice.kafka": '{"rtt":5}',
        "sluice.valid-through": "1234",
    }
    assert batch_summary(BATCH) == {
        "sluice.kind": "drain",
        "sluice.batch-id": BATCH.batch_id,
        "sluice.attempt": "a-1",
        "sluice.start-offsets": '{"0": 3, "10": 0}',
        "sluice.end-offsets": '{"0": 9, "10": 4}',
    }
    progress = Progress("flights", 2, {10: 4, 0: 9})
    written = progress_summary(progress, progress.to_properties())
    assert len(written.pop("sluice.properties-digest")) == 16
    assert written == {"sluice.generation": "2", "sluice.next-offsets": '{"0": 9, "10": 4}'}


def test_every_word_of_people_is_written_as_before() -> None:
    """Who, why and how a batch came to be committed; what nobody gave is not written."""
    assert actor_summary("ada", "run-1") == {"sluice.actor": "ada", "sluice.run-id": "run-1"}
    assert actor_summary("ada", "run-1", version="1.0", reason="") == {
        "sluice.actor": "ada",
        "sluice.run-id": "run-1",
        "sluice.version": "1.0",
        "sluice.reason": "",
    }
    assert adoption_summary("run-2") == {"sluice.adopted-by": "run-2"}
    assert publication_summary("ada", "a sale") == {"sluice.published-by": "ada", "sluice.reason": "a sale"}
    assert gate_summary(is_held=True) == {"sluice.gate": "held"}
    assert gate_summary(is_held=False) == {"sluice.gate": "passed"}
    assert attempt_summary("fold") == {"sluice.attempt": "fold"}


def test_what_is_written_is_read_back() -> None:
    """Reader and writers agree about every word that a decision or a screen goes by."""
    progress = Progress("flights", 2, {0: 9, 10: 4})
    balances = {0: Balance(rows=1, dead_letters=2, tombstones=3), 10: Balance(rows=4)}
    summary = CommitSummary(
        {
            **counts_summary(BATCH, balances, bytes_read=77, kafka={"rtt": 5}, valid_through_ms=1_234),
            **gate_summary(is_held=True),
            **batch_summary(BATCH),
            **progress_summary(progress, progress.to_properties()),
            "added-records": "5",
        }
    )
    assert (summary.attempt, summary.kind, summary.batch_id) == ("a-1", "drain", BATCH.batch_id)
    assert (summary.is_of_sluice, summary.work, summary.is_held) == (True, DRAIN, True)
    assert (summary.start_offsets, summary.next_offsets) == (RANGES.starts, progress.next_offsets)
    assert (summary.generation, summary.has_progress) == (2, True)
    assert summary.balances == tuple(balances.values())
    assert (summary.records, summary.bytes_read, summary.valid_through_ms) == (10, 77, 1_234)
    assert (summary.kafka, summary.count("added-records")) == ({"rtt": 5}, 5)


def test_what_a_summary_does_not_say_is_nothing() -> None:
    """Other writers and older versions leave words out; a damaged count of Kafka's stops nobody."""
    summary = CommitSummary({"added-records": "5"})
    assert not summary.is_of_sluice
    assert not summary.has_progress
    assert not summary.is_held
    assert (summary.attempt, summary.kind, summary.batch_id) == (None, None, "")
    assert (summary.balances, summary.valid_through_ms, summary.properties_digest) == (None, None, None)
    assert (summary.generation, summary.next_offsets, summary.start_offsets, summary.records) == (
        0,
        {},
        {},
        0,
    )
    assert CommitSummary({"sluice.kafka": "[1"}).kafka == {}


def test_no_other_module_knows_the_words() -> None:
    """A word of summaries or properties stands in the product's code where it is written and read."""
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for room in PRODUCT
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in OWNERS
        for word in _words(path)
    }
    assert found == set()


def _words(path: Path) -> set[str]:
    """Those of the file's texts, its comments and docstrings apart."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in prose]
    words = {
        w for text in texts if isinstance(text, str) for w in re.findall(r"\bsluice\.[a-z][a-z.-]*", text)
    }
    return {word for word in words if word.rstrip(".") not in FILES}
