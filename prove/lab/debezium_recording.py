"""``python -m prove.lab.debezium_recording FILE``: records Debezium's events and the database's rows.

Of the table that is changed: all records, with schemas and without, and after each moment the ends of the
topics and the rows. Of the one with a column of every type: all records.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from prove.lab.debezium import Debezium, ends, open_debezium, settled
from prove.lab.debezium_moments import COLUMNS, KILLED, MOMENTS, PARTITIONS, ROWS, TABLES, TYPED, TYPED_ROWS
from prove.lab.kafka_server import KafkaBroker, start_test_kafka
from servers.process import ServerFolder

_WITH, _WITHOUT = "shop", "bare"
_TABLES = ("customers", "typed", "marks", "signals")


def main(file: str) -> None:
    """Record, in about a minute."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kafka = start_test_kafka(ServerFolder(folder, "kafka"))
        try:
            with open_debezium(folder, kafka.bootstrap_servers) as source:
                recording = _record(source, KafkaBroker(kafka.bootstrap_servers))
        finally:
            kafka.process.stop()
    text = json.dumps(recording, separators=(",", ":"), default=str)
    Path(file).write_bytes(gzip.compress(text.encode(), mtime=0))


def _record(source: Debezium, broker: KafkaBroker) -> dict[str, Any]:
    source.run(*TABLES, TYPED, ROWS)
    for connector in (_WITH, _WITHOUT):
        for table in _TABLES:
            broker.create_topic(f"{connector}.public.{table}", PARTITIONS, retention_ms=-1)
        source.capture(connector, *_TABLES[:-1], with_schemas=connector == _WITH, more={})
    moments = [_moment(source, broker, "as it was", 1)]
    for number, (name, statements) in enumerate(MOMENTS.items(), start=2):
        before = _ends(broker)
        source.run(*statements)
        if name == KILLED:
            while _ends(broker) == before:
                time.sleep(0.01)
            source.kill_worker()
        moments.append(_moment(source, broker, name, number))
    source.run(*TYPED_ROWS)
    _moment(source, broker, "", len(moments) + 1)
    records = {
        f"{connector}.{table}": _records(broker, f"{connector}.public.{table}")
        for connector in (_WITH, _WITHOUT)
        for table in ("customers", "typed")
    }
    return {"moments": moments, "records": records}


def _moment(source: Debezium, broker: KafkaBroker, name: str, mark: int) -> dict[str, Any]:
    source.run(f"INSERT INTO marks VALUES ({mark})")  # noqa: S608
    settled(partial(_count, broker, "marks"), at_least=2 * mark)
    settled(partial(_count, broker, "customers"))
    settled(partial(_count, broker, "typed"))
    rows = source.run(f"SELECT {', '.join(COLUMNS)} FROM customers ORDER BY id")  # noqa: S608
    return {"name": name, "ends": _ends(broker), "rows": rows}


def _ends(broker: KafkaBroker, table: str = "customers") -> dict[str, dict[int, int]]:
    return {connector: ends(broker, f"{connector}.public.{table}") for connector in (_WITH, _WITHOUT)}


def _count(broker: KafkaBroker, table: str) -> int:
    return sum(sum(each.values()) for each in _ends(broker, table).values())


def _records(broker: KafkaBroker, topic: str) -> list[list[Any]]:
    """Return partition, offset, key, value and headers of all records."""
    reader = Consumer({"bootstrap.servers": broker, "group.id": "of-nobody"})
    found = []
    for partition, end in ends(broker, topic).items():
        reader.assign([TopicPartition(topic, partition, 0)])
        for _ in range(end):
            message = reader.poll(30)
            assert message is not None
            headers = [(str(each[0]), _text(each[1])) for each in message.headers() or ()]
            headers = [each for each in headers if not each[0].startswith("__debezium.context")]
            found.append([partition, message.offset(), _text(message.key()), _text(message.value()), headers])
    reader.close()
    return found


def _text(item: str | bytes | None) -> str | None:
    return item.decode() if isinstance(item, bytes) else item


if __name__ == "__main__":
    main(*sys.argv[1:])
