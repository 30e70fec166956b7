"""The command line: its names, their groups in ``--help``, and how a command's outcome becomes an exit code.

A command's file is imported when that command runs: ``--help`` and ``status`` must feel instant.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from spark_jobs.protocol.errors import SluiceError

EXIT_INTERRUPTED = 130
EXIT_UNEXPECTED = 70


# What `--help` lists, in its order: a command is a line here and its file, `cli/commands/<name>.py`
# (`develop.py` for the last group).
_LISTED = """
Use
  demo      Real Kafka, real data, two tables filled and audited in minutes.
  init      Write a commented sluice.yaml for your broker.
  preview   Show the table a topic would become; writes nothing.
  up        Run what the configuration names until Ctrl-C.
  status    One word, lag and last commit per pipeline.
  query     SQL over a table and its dead letters, now or as of then.
Operate
  validate  Check sluice.yaml: every mistake with line and key.
  check     Try every connection a pipeline needs; leaves nothing behind.
  drain     Drain one pipeline now, until it has caught up.
  recover   Settle attempts that a crash left unfinished.
  replay    Read drained offsets again and replace exactly their rows.
  upkeep    Compact, expire, rewrite manifests, remove orphans, fold the log.
  held      Batches that failed a quality gate: list, publish, discard.
  audit     Compare a table with Kafka: missing, duplicated, differing.
  history   Every batch and act: when, what, how long, who and why.
  trace     Where one record is and why: row, dead letter, gap, not drained.
  checks    Judge pipelines: complete, fresh, lag, stall, retention, ...
  pause     Stop a pipeline's drains until `resume`.
  resume    Let a paused pipeline drain again.
  skip      Leave out offsets that cannot be drained, and remember it.
  metrics   Serve Prometheus metrics until Ctrl-C.
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


class SluiceGroup(click.Group):
    """A group that lists its commands by section and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return all names, in the order of ``--help``."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's file; None for a name that is not listed.

        It gets ``--config`` and ``--debug`` too, so that they work before and after its name.
        """
        section = next((entry.section for entry in COMMANDS if entry.name == cmd_name), None)
        if section is None:
            return None
        file, name = ("develop", cmd_name) if section == "Develop" else (cmd_name, "command")
        command: click.Command = getattr(importlib.import_module(f"cli.commands.{file}"), name)
        taken = {option for parameter in command.params for option in parameter.opts}
        command.params.extend(option for option in common_options() if not taken & set(option.opts))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the sections of ``--help``."""
        width = max(len(entry.name) for entry in COMMANDS)
        for section in dict.fromkeys(entry.section for entry in COMMANDS):
            rows = [(e.name.ljust(width), e.line) for e in COMMANDS if e.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)


def common_options() -> list[click.Option]:
    """Return the options of every command; ``main`` reads ``--debug`` itself, a mistyped line has it too."""
    return [
        click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The configuration instead of SLUICE_CONFIG or ./sluice.yaml.",
            expose_value=False,
            is_eager=True,
            callback=_use_config,
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            help="Show the traceback of an error.",
            expose_value=False,
        ),
    ]


def _use_config(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    # Dagster's processes and Spark's workers are children: they find the same file through the variable.
    os.environ["SLUICE_CONFIG"] = str(value.absolute())


sluice = SluiceGroup(
    name="sluice",
    help="Kafka topics into Apache Iceberg tables, exactly once, run by Dagster.",
    params=list(common_options()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="New here: ./sluice demo. Your own broker: ./sluice init, then validate, check, preview and up.",
)


def main(arguments: list[str]) -> int:
    """Run one command line and give its exit code; an error becomes a line, a hint and an anchor."""
    debug = "--debug" in arguments
    try:
        result: Any = sluice.main(args=arguments, prog_name="./sluice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show(file=sys.stdout)
        return 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the last place that can turn a crash into a line)
        return _report(error, debug=debug)
    return result if isinstance(result, int) else 0


def _report(error: Exception, *, debug: bool) -> int:
    from cli.output import print_traceback, render_error

    if debug:
        print_traceback(error)
    render_error(error)
    return error.exit_code if isinstance(error, SluiceError) else EXIT_UNEXPECTED
