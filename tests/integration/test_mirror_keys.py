"""Keys of a mirror of any form: of several fields, and texts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.debezium_events import Source
from prove.lab.generated_changes import UNAVAILABLE
from prove.lab.kafka_server import Record
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

# Alike where fields are put together without care, where text is trimmed, folded or read as a number.
PAIRS = (
    ("a", 11),
    ("a1", 1),
    ("a", 1),
    ("A", 1),
    ("", 0),
    (" ", 0),
    ("1", 1),
    ("01", 1),
    ('"', 2),
    ("\n", 2),
)
TEXTS = ("a", "A", " a", "", "1", "1.0", "01", "null", "ü", "u\u0308", "𝄞", "a\x00b")


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def _told(operation: str, key: tuple[str, int], note: str, at: int, *more: tuple[str, bytes]) -> Record:
    fields = {"tenant": key[0], "nr": key[1]}
    row = None if operation == "d" else {**fields, "note": note}
    return Record(Source().event(operation, row, lsn=100 + at), key=_as_key(key), headers=more)


def _as_key(key: tuple[str, int]) -> bytes:
    return json.dumps({"tenant": key[0], "nr": key[1]}, separators=(",", ":"), ensure_ascii=False).encode()


def _rows(lab: Lab, *names: str) -> dict[Any, str]:
    rows = lab.table().scan().to_arrow().to_pylist()
    found = {tuple(row[name] for name in names): row["note"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_a_key_of_two_fields_is_one_key(new_lab: NewLab) -> None:
    """Changed, deleted, there again, and changed itself: each pair has its own row, and no other pair's."""
    lab = new_lab([_told("c", key, f"first {key}", at) for at, key in enumerate(PAIRS)], layout="mirror")
    lab.drain()
    wanted = {key: f"first {key}" for key in PAIRS}
    assert _rows(lab, "tenant", "nr") == wanted
    old, new = PAIRS[1], ("b", 1)
    told = [
        *(_told("u", key, f"second {key}", 100 + at) for at, key in enumerate(PAIRS[::3])),
        *(_told("d", key, "", 200 + at) for at, key in enumerate(PAIRS[2::3])),
        _told("c", PAIRS[2], "there again", 300),
        _told("d", old, "", 400),
        _told("c", new, UNAVAILABLE, 400, ("__debezium.oldkey", _as_key(old))),
    ]
    new_lab.produce(lab, told)
    lab.drain()
    wanted |= {key: f"second {key}" for key in PAIRS[::3]}
    wanted = {key: note for key, note in wanted.items() if key not in PAIRS[2::3]}
    wanted |= {PAIRS[2]: "there again", new: wanted.pop(old)}
    assert _rows(lab, "tenant", "nr") == wanted
    assert lab.audit().is_clean


def test_a_text_is_a_key_as_it_is(new_lab: NewLab) -> None:
    """Told to be texts, no two are one key, whatever they look like; changes and deletes find theirs."""

    def told(text: str, note: str | None) -> Record:
        value = None if note is None else json.dumps({"note": note}).encode()
        return Record(value, key=text.encode())

    records = [told(text, f"first {text!r}") for text in TEXTS]
    lab = new_lab(records, layout="mirror", cdc={"envelope": "upsert"}, key={"format": "string"})
    lab.drain()
    assert _rows(lab, "_cdc_row_id") == {(text,): f"first {text!r}" for text in TEXTS}
    new_lab.produce(lab, [told(text, f"second {text!r}") for text in TEXTS[::2]])
    new_lab.produce(lab, [told(text, None) for text in TEXTS[1::4]])
    lab.drain()
    kept = [text for text in TEXTS if text not in TEXTS[1::4]]
    assert _rows(lab, "_cdc_row_id") == {
        (text,): f"{'second' if text in TEXTS[::2] else 'first'} {text!r}" for text in kept
    }
    assert lab.audit().is_clean
