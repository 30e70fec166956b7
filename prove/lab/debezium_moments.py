"""Captured tables of a real database, and the statements run on them, step by step."""

from __future__ import annotations

from collections.abc import Mapping

PARTITIONS = 3
TABLES = (
    """CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, note text, score int,
 amount numeric(12,2), seen timestamptz)""",
    "ALTER TABLE customers ALTER note SET STORAGE EXTERNAL",
    "CREATE TABLE marks (id int PRIMARY KEY)",
    "CREATE TABLE signals (id text PRIMARY KEY, type text NOT NULL, data text)",
)
ROWS = """INSERT INTO customers
 SELECT i, 'c'||i, CASE WHEN i % 5 = 0 THEN repeat(md5(i::text), 200) END, i, i / 4.0,
 '2024-02-29 12:00+02'::timestamptz + i * interval '1 s' FROM generate_series(1, 30) i"""
_SWAP = """BEGIN; UPDATE customers SET id = -1 WHERE id = 1; UPDATE customers SET id = 1 WHERE id = 2;
 UPDATE customers SET id = 2 WHERE id = -1; COMMIT"""
SNAPSHOT = """INSERT INTO signals VALUES (md5(random()::text), 'execute-snapshot',
 '{"data-collections": ["public.customers"], "type": "incremental"}')"""
COLUMNS = ("id", "name", "note", "score", "amount", "seen")
OVERLAPPING = "transactions that overlap"
# The first is begun before the second and committed after it.
OVERLAPPED = (
    "UPDATE customers SET name = 'first' WHERE id IN (11, 12, 13, 14)",
    "UPDATE customers SET name = 'second' WHERE id IN (21, 22, 23, 24)",
    "UPDATE customers SET score = score + 1 WHERE id IN (11, 12)",
)
KILLED, TOLD = "told again by a worker that was killed", 4  # a delete is two records

# Each is one moment at which the rows must add up; a statement is a transaction.
MOMENTS: Mapping[str, tuple[str, ...]] = {
    "changed, gone and there again": (
        "UPDATE customers SET score = score + 100 WHERE id <= 5",
        "DELETE FROM customers WHERE id IN (6, 7)",
        "INSERT INTO customers (id, name) VALUES (6, 'again')",
    ),
    "a value that is not told": ("UPDATE customers SET score = 0 WHERE id IN (10, 20)",),
    "keys that change, with a value that is not told": (
        "UPDATE customers SET id = 110 WHERE id = 10",
        "UPDATE customers SET id = id + 1000 WHERE id IN (15, 16)",
    ),
    "two rows that swap their keys": (_SWAP,),
    KILLED: (
        "UPDATE customers SET amount = 1 WHERE id = 4",
        "DELETE FROM customers WHERE id = 9",
        "INSERT INTO customers (id, name) VALUES (9, 'told again')",
    ),
    OVERLAPPING: (),
    "an incremental snapshot": (
        "UPDATE customers SET name = 'before' WHERE id = 3",
        SNAPSHOT,
        "DELETE FROM customers WHERE id = 8",
    ),
    "altered: a column more, a wider one": (
        "ALTER TABLE customers ADD extra text",
        "UPDATE customers SET extra = 'e' WHERE id = 9",
        "ALTER TABLE customers ALTER score TYPE bigint",
        "UPDATE customers SET score = 5000000000 WHERE id = 4",
    ),
    "emptied, and a row after": (
        "TRUNCATE customers",
        "INSERT INTO customers (id, name, amount) VALUES (9, 'after', 2.25)",
    ),
}

# What has no form in Iceberg, or one that Debezium tells otherwise; each by itself.
TYPED = """CREATE TABLE typed (id bigint PRIMARY KEY, exact numeric(12,2), free numeric, day date,
 at timestamp, at_ms timestamp(3), zoned timestamptz, clock time, zoned_clock timetz, span interval,
 uid uuid, doc jsonb,
 raw bytea, bits bit(5), numbers int[], texts text[], days date[], single real, ratio double precision,
 is_on boolean, small smallint, address inet, place point, tiny numeric(3,5),
 fixed numeric(8,3) NOT NULL DEFAULT 0)"""
TYPED_ROWS = (
    """INSERT INTO typed VALUES (1, -123.45, 1.500, '2022-01-08', '2023-11-14 22:13:20.123456',
 '2023-11-14 22:13:20.123', '2024-02-29 12:00:00.123456+02', '23:59:59.999999', '10:00:00+02', '1 day 02:00',
 '0b4f6d4e-7b1a-4b0e-9d8b-0a1b2c3d4e5f', '{"a": [1, 2.50]}', '\\x00ff', '10101', '{1,NULL,3}', '{a,"b c"}',
 '{2020-01-01,NULL}', 1.1, 0.1, true, 7, '10.0.0.1/8', '(1,2)', 0.00012, 1.125)""",
    *(
        f"INSERT INTO typed (id, {column}) VALUES ({number}, '{value}')"  # noqa: S608
        for number, (column, value) in enumerate(
            (
                ("single", "NaN"),
                ("ratio", "-Infinity"),
                ("free", "123456789012345678901234567890123456789012345678901234567890.5"),
                ("free", "NaN"),
                ("exact", "NaN"),
                ("fixed", "NaN"),
                ("day", "infinity"),
                ("day", "0044-03-15 BC"),
                ("day", "5874897-12-31"),
                ("at", "-infinity"),
                ("at", "294276-12-31 23:59:59.999999"),
                ("at_ms", "infinity"),
                ("zoned", "infinity"),
                ("zoned", "0044-03-15 00:00:00+00 BC"),
                ("clock", "24:00:00"),
            ),
            start=2,
        )
    ),
)
