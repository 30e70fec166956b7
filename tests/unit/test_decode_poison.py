"""Values that kill Arrow's JSON reader never reach it."""

from __future__ import annotations

import subprocess
import sys

_CORPUS = """
import pyarrow as pa
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.block import decode_chunk

deep = 200_000
poison = [
    b"null", b" null", b"null\\n", b"", b"nul", b"[]", b"{}null", b"true",
    b'{"a":' + b"[" * deep + b"]" * deep + b"}",
    b'{"new":' + b"[" * deep + b"1" + b"]" * deep + b"}",
    b'{"new":' + b"[" * deep + b"}",
    b'{"n":' * deep + b"1" + b"}" * deep,
    b'{"n":[' * deep + b"1" + b"]}" * deep,
    b'{"s":"' + b"]" * deep + b'","new":' + b"[" * deep + b"]" * deep + b"}",
    b'{"s":"\\\\\\\\","new":' + b"[" * deep + b"]" * deep + b"}",
    b'{"a":1e-999999999,"d":0e-999999999}', b'{"d":"1e-99999999"}', b"\\x00" * 10, b"{\\x00}", b"\\xff" * 10,
]
narrow = pa.schema([("a", pa.int64()), ("s", pa.string())])
for schema in (pa.schema([]), narrow, narrow.append(pa.field("d", pa.decimal128(9, 2)))):
    for chunk in (*([value] for value in poison), poison, [b"{}", *poison]):
        decoded = decode_chunk(chunk, schema)
        assert decoded.new_fields is not None or len(decoded.unread) >= len(chunk) - 2, chunk[0][:40]
observe(poison)
print("alive")
"""


def test_the_process_outlives_poison() -> None:
    """In a process of its own, since a segmentation fault ends more than a test."""
    finished = subprocess.run([sys.executable, "-c", _CORPUS], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stdout) == (0, "alive\n"), finished.stderr[-2000:]
