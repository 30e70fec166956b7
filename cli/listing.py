"""The commands and their one-line texts in ``--help``. Pure: imported before anything is installed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

SUMMARY = "Kafka topics into Apache Iceberg tables, exactly once, run by Dagster."
NEXT = "Start with ./sluice demo. For your own broker: ./sluice init, then validate, check, preview, up."

OF_UP = "watch"  # a command that `up` starts, and nobody types

# What `--help` lists, in its order: a command is a line here and its file, `cli/commands/<name>.py`
# (`develop.py` for the last group).
_LISTED = """
Use
  demo      Run Kafka, fill two tables from real data and audit them.
  init      Write a commented sluice.yaml for your broker.
  preview   Show the table that a topic would become. Writes nothing.
  up        Run Dagster and the servers it needs until Ctrl-C.
  status    Show the state, lag and last commit of each pipeline.
  query     Run SQL over a table, now or as of a snapshot, with or without Kafka.
  lookup    Show the rows of a record key, newest first.
  docs      Serve the documentation, or print the section of an error code.
Operate
  validate  List every mistake in sluice.yaml with its line and key.
  check     Test every connection that a pipeline needs.
  drain     Drain one pipeline now, until it has caught up.
  recover   Finish or remove what a crash left unfinished.
  replay    Read drained offsets again and replace their rows.
  redrive   Process dead letters again with today's configuration.
  rebuild   Rebuild a mirror from its topic in one commit.
  export    Produce an archive's records to a topic.
  upkeep    Compact files, expire snapshots, delete orphans, compact the log.
  held      List, publish or discard batches that failed a quality gate.
  audit     Compare a table with Kafka, record by record.
  history   List batches and operator actions, newest first.
  trace     Find one record: row, dead letter, gap or not drained yet.
  checks    Run the built-in checks of one pipeline or all.
  pause     Stop a pipeline's drains until `resume`.
  resume    Let a paused pipeline drain again.
  skip      Pass over offsets that cannot be drained.
  serve     Answer queries over tables and Kafka until Ctrl-C.
  gateway   Accept events over WebSocket and HTTP until Ctrl-C.
  metrics   Serve Prometheus metrics until Ctrl-C.
  catalog   Serve the catalog to other engines, read-only, until Ctrl-C.
  rollback  Return a table and its offsets to a snapshot or a time.
  retype    Change the type of a column and convert its values.
  repartition  Change a table's partitioning to what sluice.yaml declares.
  source    Compare a topic with the table's source, or accept a new one.
  down      Stop what `up` started, from another terminal.
  reset     Delete the local state after asking.
Develop
  lint      Run formatter, linter, type checks, import rules and unit tests.
  test      Run the test suite.
  prove     Kill every job at each step, restart it and audit the result.
  bench     Measure throughput, latency and memory as ratios within one run.
  native    Build the WebAssembly module that decodes JSON.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """Section, name and one-line text of a command in ``--help``."""

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
    """Return the error text for an unknown command, with the closest known name."""
    close = difflib.get_close_matches(name, [entry.name for entry in COMMANDS], n=1)
    return f"No such command '{name}'." + "".join(f" Did you mean {found}?" for found in close)
