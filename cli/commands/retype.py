"""``retype PIPELINE COLUMN TYPE``: a column in another type, its values read again or taken over."""

from __future__ import annotations

import dataclasses

import click

from cli import output
from cli.work import opened


@click.command("retype")
@click.argument("pipeline")
@click.argument("column")
@click.argument("type_name", metavar="TYPE")
@click.option("--reason", required=True, help="Why, for the history.")
@output.json_option
def command(pipeline: str, column: str, type_name: str, reason: str, as_json: bool) -> None:
    """Give COLUMN of PIPELINE's table an Iceberg type: long, 'decimal(38,0)', timestamptz, ...

    The old column stays under another name. Its values are read again from Kafka where that still holds them,
    the others are taken over where they fit exactly. A value that does not fit leaves its row: null in the
    column, as it was in the old one. Safe beside drains; cut off, the same command goes on.
    """
    with opened(pipeline, "retype") as (chosen, connections):
        from spark_jobs.reshape.retype import retype

        say = (lambda _: None) if as_json else (lambda words: output.say(f"{chosen.name}: {words}"))
        done = retype(chosen, connections, column, type_name, reason=reason, on_progress=say)
    if as_json:
        output.json_line({"pipeline": chosen.name, "type": type_name, **dataclasses.asdict(done)})
        return
    offsets, files = output.count(done.replayed, "offset"), output.count(done.files, "file")
    output.say(f"{chosen.name}: {column} is {type_name}; {offsets} read again, {files} made anew")
    if done.left:
        output.say(f"  {output.count(done.left, 'row')} did not fit: null there, as before in {done.kept}")
    declare = "" if column in chosen.columns else f"; declare `columns: {{{column}: {type_name!r}}}`"
    output.say(f"  {done.kept} keeps what did not fit{declare}")
