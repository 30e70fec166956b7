"""What an earlier version had otherwise is written as it is said now; all else of a file stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.config.rewriting import rewrite, rewritten

BEFORE = """\
version: 1   # the format
defaults:
  quality:
    - name: all
      expectations:
        - expect_column_values_to_not_be_null: {column: id, row_condition: 'code != "x"'}  # kept
pipelines:

  # Æ, a comment
  orders:
    topic: orders
    table: lake.orders
    quality:
      - name: own
        expectations:
          - expect_column_values_to_not_be_null:
              column:   price
              row_condition: code=="c1" and id > 3   # why
          - expect_column_values_to_be_between:
              row_condition: >
                1 <= id
                < 3

              # after
              column: price
          - expect_column_values_to_not_be_null: {row_condition: &late "at > '2' and s == 'a\\"b'", column: a}
          - expect_column_values_to_not_be_null: {column: b, row_condition: *late}
          - expect_column_values_to_not_be_null: {column: id, row_condition: id > 3}
          - expect_column_values_to_not_be_null: {column: id, row_condition: "_ingested_at != 'x'"}
          - expect_column_values_to_not_be_null: {column: id, row_condition: 's == "a\\tb"'}
row_condition: code == "c1"
"""
CHANGED = {
    """'code != "x"'""": """\"code IS DISTINCT FROM 'x'\"""",
    'code=="c1" and id > 3 ': """\"code = 'c1' AND id > 3" """,
    ">\n                1 <= id\n                < 3\n": '"1 <= id AND id < 3"\n',
    """"at > '2' and s == 'a\\"b'\"""": """'"at" > ''2'' AND s = ''a"b'''""",
    """'s == "a\\tb"'""": """"s = 'a\\tb'\"""",
}


def test_only_what_is_said_otherwise_is_changed() -> None:
    """Comments, quotes, anchors, order and blank lines stay; lines and keys are told, and what was and is."""
    after = BEFORE
    for was, now in CHANGED.items():
        assert after.count(was) == 1
        after = after.replace(was, now)
    text, changes = rewritten("sluice.yaml", BEFORE)
    assert text == after
    assert [each.line for each in changes] == [6, 18, 20, 26, 30]
    assert str(changes[2]) == (
        "sluice.yaml:20 pipelines.orders.quality.0.expectations.1.expect_column_values_to_be_between"
        ".row_condition: 1 <= id < 3 is now 1 <= id AND id < 3"
    )


GONE = """\
gateway:
  # limits
  rates:
    address: 5   # a client

  # kept
  idle: 5m
  head: 7s   # patience
serve: {listen: "127.0.0.1:8181", head: 5s}
defaults: {encoding: compact, key_format: binary}   # Æ
pipelines:
  a: {topic: a, table: l.a, key_format: string, encoding: &how compatible}
  b:
    topic: b
    encoding: compact   # smaller
    key_format: &kind binary
    table: l.b
  c: {topic: c, key: {format: raw}, key_format: binary}
  d: {topic: d, layout: mirror, key_format: binary, head: 1s}
  e: {topic: &topic e}
  f:
    encoding:
      - *topic
    table: l.f
"""
LEFT = """\
gateway:
  # limits
  # a client

  # kept
  idle: 5m
  # patience
serve: {listen: "127.0.0.1:8181"}
defaults: {key: {format: raw}}   # Æ
pipelines:
  a: {topic: a, table: l.a, key: {format: string}, encoding: &how compatible}
  b:
    topic: b
    # smaller
    key_format: &kind binary
    table: l.b
  c: {topic: c, key: {format: raw}, key_format: binary}
  d: {topic: d, layout: mirror, key_format: binary, head: 1s}
  e: {topic: &topic e}
  f:
    encoding:
      - *topic
    table: l.f
"""


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_keys_that_are_gone_are_left_out_or_said_as_they_are_said_now(ends: str) -> None:
    """With their line or their comma; comments stay, and what an anchor names or is said already."""
    text, changes = rewritten("sluice.yaml", GONE.replace("\n", ends))
    assert text == LEFT.replace("\n", ends)
    assert [str(each).partition(" ")[2] for each in changes] == [
        "gateway.rates: rates: address: 5 is now left out",
        "gateway.head: head: 7s is now left out",
        "serve.head: head: 5s is now left out",
        "defaults.encoding: encoding: compact is now left out",
        "defaults.key_format: key_format: binary is now key: {format: raw}",
        "pipelines.a.key_format: key_format: string is now key: {format: string}",
        "pipelines.b.encoding: encoding: compact is now left out",
    ]
    assert rewritten("", text) == (text, [])


CHECKS = """\
defaults:
  checks:
    fresh: {severity: warn, limit: 5m}   # patient
    lag: {severity: off}
pipelines:
  a:
    checks: {schema: {severity: error}, lag: {severity: warn, limit: 7}, stall: {limit: 1h}}
  b:
    checks:
      # loud
      fresh:
        severity: error   # here

      stall: {}   # nothing
  c: {checks: {lag: {severity: off}}}
  d: {checks: {fresh: &f {severity: off}, stall: *f}}
  e: {checks: {warn: [stall], fresh: {severity: warn}}}
  f: {table: &f1 {severity: off}}
  g:
    checks:
      lag: {severity: off}
      stall: *f1
"""
LISTS = """\
defaults:
  checks:
    warn: [lag, dead_letters, schema, routes, fresh]
    off: [lag]
    fresh: 5m   # patient
pipelines:
  a:
    checks: {warn: [lag, dead_letters, routes, fresh], off: [], lag: 7, stall: 1h}
  b:
    checks:
      # loud
      warn: [lag, dead_letters, schema, routes]   # here

      # nothing
  c: {checks: {}}
  d: {checks: {fresh: &f {severity: off}, stall: *f}}
  e: {checks: {warn: [stall], fresh: {severity: warn}}}
  f: {table: &f1 {severity: off}}
  g:
    checks:
      lag: {severity: off}
      stall: *f1
"""


def test_severities_of_checks_become_lists_that_come_to_the_same() -> None:
    """Over what the file's or the main file's defaults say; aliases, and lists beside maps, stay."""
    text, changes = rewritten("sluice.yaml", CHECKS)
    assert text == LISTS
    assert str(changes[0]) == (
        "sluice.yaml:3 defaults.checks.fresh: fresh: {severity: warn, limit: 5m} is now"
        " warn: [lag, dead_letters, schema, routes, fresh], off: [lag], fresh: 5m"
    )
    assert rewritten("", text) == (text, [])
    team = "pipelines: {a: {checks: {stall: {severity: off}, lag: {severity: error}}}}\n"
    assert rewritten("", team, LISTS)[0] == (
        "pipelines: {a: {checks: {warn: [dead_letters, schema, routes, fresh], off: [stall]}}}\n"
    )


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_file_is_written_once(tmp_path: Path, ends: str) -> None:
    """With its rights and ends of lines, through a link as well; the second time nothing is changed."""
    file, link = tmp_path / "sluice.yaml", tmp_path / "linked.yaml"
    file.write_bytes(BEFORE.replace("\n", ends).encode())
    file.chmod(0o640)
    link.symlink_to(file)
    changes, problems = rewrite(link)
    assert (len(changes), problems) == (5, [])
    written = file.read_bytes()
    assert written.decode() == rewritten("", BEFORE)[0].replace("\n", ends)
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert rewrite(link) == ([], [])
    assert file.read_bytes() == written
    assert [*tmp_path.iterdir()] == [file, link] or [*tmp_path.iterdir()] == [link, file]


def test_what_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    """No YAML and no UTF-8 are told by whoever reads the file; one that is not there is named."""
    assert rewritten("", "a: [") == ("a: [", [])
    assert rewritten("", "") == ("", [])
    file = tmp_path / "sluice.yaml"
    file.write_bytes(b"\xff")
    assert rewrite(file) == ([], [])
    _, (problem,) = rewrite(tmp_path / "gone.yaml")
    assert problem.message == "cannot be written: No such file or directory"
