"""Stored rows of a run, so that it can continue in another session or on another machine.

A row counts only for the product code and the lock files it was made with, and for the title and the promise
that its scenario still has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prove.scenario import Findings, Outcome, Scenario

ROOT = Path(__file__).resolve().parents[1]
ROWS = ROOT / "prove" / "rows.jsonl"
PRODUCT = (
    "sluice",
    "bootstrap",
    "cli",
    "servers",
    "orchestration",
    "assets",
    "resources",
    "gateway",
    "serving",
    "spark_jobs",
)
OTHER_LOCKS = ("prove/lab/jars-test.lock",)
_DEFAULTS = {each.name: each.default for each in fields(Findings) if each.default is not MISSING}


@dataclass(frozen=True, slots=True)
class Row:
    """An outcome, with the digest of its code and the UTC time of its end."""

    digest: str
    ended: datetime
    outcome: Outcome


def product_digest(root: Path = ROOT) -> str:
    """Return 16 hex digits of all product and lock files, names and contents, without caches."""
    named = [root / name for name in (*PRODUCT, *OTHER_LOCKS)]
    files = [
        path
        for each in named
        for path in ([each] if each.is_file() else each.rglob("*"))
        if _is_product(path)
    ]
    total = hashlib.sha256()
    for path in sorted(files):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]


def _is_product(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"


def read_rows(path: Path, digest: str, scenarios: Mapping[str, Scenario]) -> dict[str, Row]:
    """Return the last row of each scenario of this digest and with the scenario's promise.

    A last line that a kill cut off is left out.
    """
    rows: dict[str, Row] = {}
    for written in _lines(path):
        scenario = scenarios.get(written["name"])
        texts = (written["title"], written["promise"])
        if written["digest"] == digest and scenario and (scenario.title, scenario.promise) == texts:
            rows[scenario.name] = _read(written, group=scenario.group, again=scenario.again)
    return rows


def all_rows(path: Path) -> list[Row]:
    """Return all stored rows, of any code and scenarios."""
    by_name = {written["name"]: written for written in _lines(path)}
    return [_read(written, group=written["group"], again="") for written in by_name.values()]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def origin(rows: Collection[Row]) -> str:
    """Return the rows' duration, dates and code version."""
    first, last = (pick(row.ended for row in rows).date() for pick in (min, max))
    days = f"{first}" if first == last else f"{first} to {last}"
    digests = ", ".join(sorted({row.digest for row in rows}))
    return f"{covered_minutes(rows):.0f} minutes, {days}, product code {digests}"


def write_rows(path: Path, rows: Collection[Row]) -> None:
    """Replace the file's rows by these."""
    path.write_text("".join(_line(row) for row in rows))


def append_row(path: Path, row: Row) -> None:
    """Append a row; earlier rows stay readable if the process dies."""
    with path.open("a") as file:
        file.write(_line(row))


def covered_minutes(rows: Collection[Row]) -> float:
    """Return the minutes covered by at least one row, over all machines."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(
        (row.ended.timestamp() - row.outcome.seconds, row.ended.timestamp()) for row in rows
    ):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total / 60


def shard_of(scenarios: Sequence[Scenario], part: int, of: int) -> list[Scenario]:
    """Return part ``part`` of ``of``, counted from 1; all parts together have each scenario once."""
    return list(scenarios[part - 1 :: of])


def _line(row: Row) -> str:
    return json.dumps(dict(_written(row)), separators=(",", ":"), ensure_ascii=False) + "\n"


def _written(row: Row) -> Iterator[tuple[str, Any]]:
    outcome = row.outcome
    yield "digest", row.digest
    yield "ended", row.ended.astimezone(UTC).isoformat(timespec="seconds")
    yield from (("name", outcome.name), ("group", outcome.group))
    yield from (("title", outcome.title), ("promise", outcome.promise))
    yield "seconds", round(outcome.seconds, 1)
    if outcome.left_out:
        yield "left_out", outcome.left_out
    if outcome.findings is not None:
        found = asdict(outcome.findings)
        yield "findings", {name: value for name, value in found.items() if value != _DEFAULTS.get(name)}


def _read(written: Mapping[str, Any], *, group: str, again: str) -> Row:
    found = written.get("findings")
    if found is not None:
        found = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    outcome = Outcome(
        name=written["name"],
        group=group,
        title=written["title"],
        promise=written["promise"],
        seconds=written["seconds"],
        findings=None if found is None else Findings(**found),
        left_out=written.get("left_out", ""),
        again=again,
    )
    return Row(written["digest"], datetime.fromisoformat(written["ended"]), outcome)
