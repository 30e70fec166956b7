"""``retype PIPELINE COLUMN TYPE``: change the type of a column and convert its values."""

from __future__ import annotations

import click

from cli.output import Report, count
from cli.work import Work, pipeline_command, reason_option
from spark_jobs.protocol import mends


@pipeline_command("retype")
@click.argument("column")
@click.argument("type_name", metavar="TYPE")
@reason_option("Reason, shown by `history`.")
def command(report: Report, work: Work, column: str, type_name: str, reason: str) -> None:
    """Change the type of COLUMN in PIPELINE's table: long, 'decimal(38,0)', timestamptz, ...

    The old column is kept under another name. Values that fit exactly are converted. A value that does not
    fit is null in the new column and stays in the old one. Later records that do not fit are dead letters.

    Safe during drains. After an interruption, run the same command again.
    """
    from spark_jobs.reshape.retype import retype

    def say(words: str) -> None:
        report.say(f"{work.pipeline.name}: {words}")

    done = retype(*work, column, type_name, reason=reason, on_progress=say)
    report.add(pipeline=work.pipeline.name, type=type_name)
    report.add(done)
    say(f"{column} is {type_name}; {count(done.files, 'file')} rewritten")
    if done.left:
        report.say(f"  {count(done.left, 'row')} did not fit: null in {column}, unchanged in {done.kept}")
    declare = "" if column in work.pipeline.columns else f"; declare `columns: {{{column}: {type_name!r}}}`"
    report.say(f"  {done.kept} keeps the values that did not fit{declare}")
    again = work.pipeline.layout.read_again(work.pipeline.name, "P:START-END")
    report.say(f"  To turn dead letters that fit now into rows: {mends.act('redrive', work.pipeline.name)}")
    report.say(f"  `audit` finds rows whose records have another value. To rewrite them: {again}")
