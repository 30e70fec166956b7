"""A key that is written in several ways is one key of a mirror, in whatever its producers write it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from prove.lab.debezium_events import Column, Source
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import PIPELINE, configure, progress
from spark_jobs.commit import mirror_commit
from spark_jobs.formats.connect.keys import Key, Spelling
from spark_jobs.protocol.errors import BadRecord, ConfigError
from spark_jobs.query.lookup import newest_of_key
from spark_jobs.replay.rebuild import rebuild
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

UPSERT: Any = {"layout": "mirror", "cdc": {"envelope": "upsert"}}


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def notes(lab: Lab) -> dict[str, str]:
    """Return the mirror's rows by their keys, each of which has one."""
    rows = lab.table().scan().to_arrow().to_pylist()
    found = {row["_cdc_row_id"]: row["note"] for row in rows}
    assert len(found) == len(rows)
    return found


def told(op: str, key: str, note: str, lsn: int) -> Record:
    """Return an event of Debezium under a key as it is written."""
    row = None if op == "d" else {"a": int(json.loads(key)["a"]), "note": note}
    return Record(Source().event(op, row, lsn=lsn), key=key.encode())


def test_one_key_in_several_spellings_has_one_row(new_lab: NewLab) -> None:
    """Within a batch and between batches: changes take its row's place, deletes take it away."""
    lab = new_lab(
        [
            told("c", '{"a":1,"b":"é"}', "first", 1),
            told("u", '{"b":"\\u00e9", "a":1.0}', "second", 2),
            told("c", '{"a":2,"b":"x"}', "kept", 3),
            told("c", '{"a":3,"b":"x"}', "first", 4),
        ],
        layout="mirror",
    )
    with pytest.raises(ConfigError, match="does not have the fields") as raised:
        lab.drain()
    assert "`mirror: {key: [a, b]}`" in raised.value.hint  # no table has an order yet
    configure(lab, f"pipelines/{PIPELINE}", {"mirror": {"key": ["a", "b"]}})
    lab.drain()
    configure(lab, f"pipelines/{PIPELINE}", {"mirror": {}})
    assert notes(lab) == {'{"a":1,"b":"é"}': "second", '{"a":2,"b":"x"}': "kept", '{"a":3,"b":"x"}': "first"}
    new_lab.produce(
        lab,
        [told("u", '{ "a":2e0, "b":"x" }', "third", 5), told("d", '{"b":"\\u0078","a":3.0}', "", 6)],
    )
    lab.drain()
    wanted = {'{"a":1,"b":"é"}': "second", '{"a":2,"b":"x"}': "third"}
    assert notes(lab) == wanted
    assert str(lab.table().schema().find_type("a")) == "long"
    assert progress(lab).cdc.is_spelled
    assert lab.audit().is_clean
    with lab.connections() as connections:
        rebuild(lab.pipeline, connections, reason="test")
    assert notes(lab) == wanted
    assert lab.audit().is_clean


def test_a_text_is_one_key_as_json_and_as_it_is(new_lab: NewLab) -> None:
    """With a schema around it, too; what may be a number or a text stops the drain until somebody says."""
    value = b'{"note":"a"}'
    told_twice = [(b"k", value), (b'"k"', b'{"note":"b"}'), (b'"\\u006b2"', value), (b"k2", None)]
    lab = new_lab([Record(value, key=key) for key, value in told_twice], **UPSERT)
    lab.drain()
    assert notes(lab) == {"k": "b"}
    new_lab.produce(lab, [Record(b'{"note":"c"}', key=b'{"schema":{"type":"string"},"payload":"k"}')])
    lab.drain()
    assert notes(lab) == {"k": "c"}
    assert lab.audit().is_clean
    new_lab.produce(lab, [Record(value, key=b"1.0")])
    with pytest.raises(BadRecord, match="may be the number 1 or a text"):
        lab.drain()
    configure(lab, f"pipelines/{PIPELINE}", {"key": {"format": "string"}})
    lab.drain()
    assert notes(lab) == {"k": "c", "1.0": "a"}


def test_a_mirror_whose_keys_are_as_they_were_written_is_named_and_made_anew(
    new_lab: NewLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By drain and audit, before anything is committed; one whose keys are in their one spelling goes on."""
    one, other = (Record(b'{"note":"a"}', key=key) for key in (b'{"id":1}', b'{"id": 1}'))
    labs = [new_lab(records, **UPSERT) for records in ([one, other], [one])]
    with monkeypatch.context() as earlier:
        earlier.setattr(Spelling, "read", lambda _self, _documents, key: Key(key.decode(), b"{}"))
        earlier.setattr(mirror_commit, "_is_spelled", lambda _folded: False)
        for lab in labs:
            lab.drain()
    assert [notes(lab).keys() for lab in labs] == [{'{"id":1}', '{"id": 1}'}, {'{"id":1}'}]
    damaged, right = labs
    new_lab.produce(damaged, [Record(None, key=b'{"id":1}')])
    for look in (damaged.drain, damaged.audit):
        with pytest.raises(ConfigError, match="the mirror stores a key as") as raised:
            look()
        assert raised.value.code == "mirror-key-spelling"
    with damaged.connections() as connections:
        rebuild(damaged.pipeline, connections, reason="test")
    assert damaged.drain().stopped == "caught-up"
    assert notes(damaged) == {}
    new_lab.produce(right, [Record(b'{"note":"b"}', key=b'{"id": 1}')])
    right.drain()
    assert notes(right) == {'{"id":1}': "b"}
    assert progress(right).cdc.is_spelled
    assert right.audit().is_clean


def test_a_row_that_is_told_to_be_deleted_is_gone(new_lab: NewLab) -> None:
    """As ExtractNewRecordState rewrites deletes, as JSON's null in a schema or none, and by no value."""
    names = ("rewritten", "enveloped", "null", "plain", "kept")
    told = [Record(b'{"note":"a","__deleted":"false"}', key=name.encode()) for name in names]
    gone = [
        b'{"note":"","__deleted":"true"}',
        b'{"schema":null,"payload":null}',
        b"null",
        None,
        b'{"payload":{"note":"__deleted"},"schema":null}',
    ]
    lab = new_lab(told, **UPSERT)
    lab.drain()
    assert notes(lab) == dict.fromkeys(names, "a")
    new_lab.produce(lab, [Record(value, key=name.encode()) for name, value in zip(names, gone, strict=True)])
    lab.drain()
    assert notes(lab) == {"kept": "__deleted"}
    assert lab.audit().is_clean


@pytest.mark.parametrize("columns", [{}, {"id": Column("int32"), "note": Column("string")}])
def test_a_key_may_have_a_field_that_its_rows_lack(new_lab: NewLab, columns: dict[str, Column]) -> None:
    """As a router of topics adds one: it is part of the key, deletes take rows away by it."""
    source = Source(columns)

    def routed(op: str, number: int, lsn: int) -> Record:
        row = None if op == "d" else {"id": number, "note": "a"}
        key = source.key(number).replace(f'{{"id":{number}'.encode(), b'{"id":%d,"__dbz":"t1"' % number)
        key = key.replace(b'"fields":[', b'"fields":[{"type":"string","field":"__dbz"},')
        return Record(source.event(op, row, lsn=lsn), key=key)

    lab = new_lab([routed("c", 1, 1), routed("c", 2, 2), routed("d", 1, 3)], layout="mirror")
    lab.drain()
    assert notes(lab) == {'{"id":2,"__dbz":"t1"}': "a"}
    new_lab.produce(lab, [routed("d", 2, 4), routed("c", 3, 5)])
    lab.drain()
    assert notes(lab) == {'{"id":3,"__dbz":"t1"}': "a"}
    assert lab.audit().is_clean
    if columns:
        assert "__dbz" not in lab.table().schema().column_names


def test_events_without_a_source_are_in_the_order_of_their_offsets(new_lab: NewLab) -> None:
    """As Flink writes them: an update is a delete and a row; deletes stay deletes, nulls are counted."""

    def flink(op: str, number: int, note: str) -> Record:
        row = {"id": number, "note": note}
        event = (
            {"before": row, "after": None, "op": op}
            if op == "d"
            else {"before": None, "after": row, "op": op}
        )
        return Record(json.dumps(event).encode(), key=b'{"id":%d}' % number)

    nothing = Record(b'{"schema":null,"payload":null}', key=b'{"id":1}')
    lab = new_lab([flink("c", 1, "a"), flink("c", 2, "a"), flink("d", 1, "a"), nothing], layout="mirror")
    assert lab.drain().balance["nulls"] == 1
    new_lab.produce(lab, [flink("d", 2, "a"), flink("c", 2, "b")])
    lab.drain()
    assert notes(lab) == {'{"id":2}': "b"}
    assert lab.audit().is_clean
    with lab.connections() as connections:
        found = newest_of_key(lab.pipeline, connections, '{ "id": 2.0 }')
        assert [row["note"] for batch in found.batches for row in batch.to_pylist()] == ["b"]
