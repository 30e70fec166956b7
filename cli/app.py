"""The command line: command names, sections of ``--help``, common options and exit codes.

A command's module is imported only when that command runs, so that ``--help`` and ``status`` start fast.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Any

import click

from cli.listing import COMMANDS, NEXT, OF_UP, SUMMARY, no_such_command
from spark_jobs import __version__
from spark_jobs.config.secrets import LEVELS, VARIABLE, log_to, use_log_level
from spark_jobs.protocol.errors import SluiceError

EXIT_INTERRUPTED = 130
EXIT_UNEXPECTED = 70


class SluiceGroup(click.Group):
    """Command group that lists commands by section and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return all command names in the order of ``--help``."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return the command; None if the name is unknown.

        The common options are added to it, so that they work before and after its name.
        """
        section = next((entry.section for entry in COMMANDS if entry.name == cmd_name), None)
        if section is None and cmd_name != OF_UP:
            return None
        file, name = ("develop", cmd_name) if section == "Develop" else (cmd_name, "command")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.commands.{file}"), name)
        taken = {option for parameter in command.params for option in parameter.opts}
        command.params.extend(option for option in common_options() if not taken & set(option.opts))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the typed command. Raises ``UsageError`` with the closest name if it is unknown."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(no_such_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the command list of ``--help`` by section."""
        width = max(len(entry.name) for entry in COMMANDS)
        for section in dict.fromkeys(entry.section for entry in COMMANDS):
            rows = [(e.name.ljust(width), e.line) for e in COMMANDS if e.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)


def common_options() -> list[click.Option]:
    """Return the options that every command has; ``main`` reads ``--debug`` before parsing."""
    return [
        click.Option(
            ["--config"],
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Configuration file. Overrides SLUICE_CONFIG and ./sluice.yaml.",
            expose_value=False,
            is_eager=True,
            callback=_use_config,
        ),
        click.Option(
            ["--log-level"],
            type=click.Choice(LEVELS, case_sensitive=False),
            metavar="LEVEL",
            help="debug (with librdkafka's log), info, warning or error. Overrides SLUICE_LOG_LEVEL.",
            expose_value=False,
            is_eager=True,
            callback=_use_log_level,
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            help="Show the Python traceback of an error.",
            expose_value=False,
        ),
    ]


def _use_config(ctx: click.Context, _parameter: click.Parameter, value: Path | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    # Dagster's processes and Spark's workers are children: they find the same file through the variable.
    os.environ["SLUICE_CONFIG"] = str(value.absolute())
    os.environ.pop("SLUICE_CONFIG_YAML", None)


def _use_log_level(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing:
        return
    os.environ[VARIABLE] = value  # for children, as above
    use_log_level()


class _ToTerminal(logging.Handler):
    """Log handler that writes to standard error; standard output is for results."""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        print(f"warning: {line}" if record.levelno == logging.WARNING else line, file=sys.stderr, flush=True)


sluice = SluiceGroup(
    name="sluice",
    help=SUMMARY,
    params=common_options(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=NEXT,
)
click.version_option(__version__, message="sluice %(version)s", help="Show the version.")(sluice)


def main(arguments: list[str]) -> int:
    """Run one command line and return its exit code; print an error as message, hint and anchor."""
    debug = "--debug" in arguments
    try:
        with log_to(_ToTerminal()):
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
