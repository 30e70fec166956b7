"""The commands and their lines, as ``--help`` lists them. Pure: it is read before anything is installed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

SUMMARY = "Kafka topics into Apache Iceberg tables, exactly once, run by Dagster."
NEXT = "New here: ./sluice demo. Your own broker: ./sluice init, then validate, check, preview and up."

# What `--help` lists, in its order: a command is a line here and its file, `cli/commands/<name>.py`
# (`develop.py` for the last group).
_LISTED = """
Use
  demo      Real Kafka, real data, two tables filled and audited in minutes.
  init      Write a commented sluice.yaml for your broker.
  preview   Show the table a topic would become; writes nothing.
  up        Run what the configuration names until Ctrl-C.
  status    One word, lag and last commit per pipeline.
  query     SQL over a table and its dead letters: now, then, or with Kafka.
  lookup    The rows of a record key, the newest first.
Operate
  validate  Check sluice.yaml: every mistake with line and key.
  check     Try every connection a pipeline needs; leaves nothing behind.
  drain     Drain one pipeline now, until it has caught up.
  recover   Settle attempts that a crash left unfinished.
  replay    Read drained offsets again and replace exactly their rows.
  redrive   Send dead letters through again: rows, or why not.
  rebuild   Fold a mirror's topic anew, in one commit.
  export    Produce an archive to a topic: the stream as it came.
  upkeep    Compact, expire, rewrite manifests, remove orphans, fold the log.
  held      Batches that failed a quality gate: list, publish, discard.
  audit     Compare a table with Kafka: missing, duplicated, differing.
  history   Every batch and act: when, what, how long, who and why.
  trace     Where one record is and why: row, dead letter, gap, not drained.
  checks    Judge pipelines: complete, fresh, lag, stall, retention, ...
  pause     Stop a pipeline's drains until `resume`.
  resume    Let a paused pipeline drain again.
  skip      Leave out offsets that cannot be drained, and remember it.
  serve     Answer queries over tables and Kafka until Ctrl-C.
  gateway   Take events from clients without Kafka until Ctrl-C.
  metrics   Serve Prometheus metrics until Ctrl-C.
  catalog   Serve the catalog to other engines, read-only, until Ctrl-C.
  rollback  Set a table and its offsets back to a snapshot or a time.
  retype    Give a column another type, its values read again.
  repartition  Partition a table as sluice.yaml says by now.
  source    Compare a topic with the table's source; take a new one.
  down      Stop what `up` started, from elsewhere.
  reset     Delete the local state after a yes.
Develop
  lint      Format, lint, types, import rules, unit and property tests.
  test      The whole test suite.
  prove     Kill it everywhere, restart, and count what was lost or doubled.
  bench     Throughput, latency and memory, as ratios within one run.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command as ``--help`` lists it: its section, its name and its line."""

    section: str
    name: str
    line: str


def _entries(listed: str) -> Iterator[Entry]:
    section = ""
    for text in listed.strip().splitlines():
        if text.startswith(" "):
            yield Entry(section, *text.split(maxsplit=1))
        else:
            section = text


COMMANDS = tuple(_entries(_LISTED))


def no_such_command(name: str) -> str:
    """Return what is said of a name that no command has, with the one that was probably meant."""
    close = difflib.get_close_matches(name, [entry.name for entry in COMMANDS], n=1)
    return f"No such command '{name}'." + "".join(f" Did you mean {found}?" for found in close)
