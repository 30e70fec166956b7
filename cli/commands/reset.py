"""``reset``: delete the state folder after asking."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from cli import output
from cli.stand.run_record import already_running, read_up
from spark_jobs.config.file import load_written
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.paths import is_inside
from spark_jobs.storage.state_files import foreign_entries


@click.command("reset")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(yes: bool) -> None:
    """Delete the local state folder: embedded Kafka, catalog, tables, Dagster's history, logs.

    Topics of your broker and tables of another catalog are not deleted.
    """
    config = load_written()
    home = Path(config.home)
    running = read_up(config.home)
    if running is not None:
        raise already_running(running, config.home)
    if not home.exists():
        output.say(f"nothing to delete: {home} does not exist")
        return
    entries = sorted(home.iterdir())
    _refuse_foreign(home)
    output.say(f"this deletes {home}:")
    output.table(("entry", "size"), [(entry.name, _size(entry)) for entry in entries], numbers=("size",))
    output.say(*kept(config))
    if not yes and not click.confirm("Delete it?", default=False):
        output.say("nothing was deleted")
        return
    from cli.stand.running import stop_left_over

    stop_left_over(config)
    shutil.rmtree(home)
    output.say("deleted")


def kept(config: SluiceConfig) -> list[str]:
    """Return one line for each thing in use outside the state folder."""
    lines = []
    if config.has_broker:
        lines.append(f"not deleted: topics and consumer groups of {config.kafka['bootstrap.servers']}")
    properties = config.catalog.properties
    database = properties.get("uri", "").removeprefix("sqlite:///")
    warehouse = properties.get("warehouse", config.home)
    if not (is_inside(database, config.home) and is_inside(warehouse, config.home)):
        tables = ", ".join(pipeline.table for pipeline in config.pipelines)
        lines.append(f"not deleted: the catalog {config.catalog.name} with its tables ({tables})")
    if not is_inside(config.state, config.home):
        lines.append(f"not deleted: the transaction log {config.state}")
    return lines


def _refuse_foreign(home: Path) -> None:
    """Raise ``ConfigError`` for a folder with foreign files, as after a mistyped SLUICE_HOME."""
    if foreign := foreign_entries(home):
        raise fault("foreign-state-folder", folder=home, foreign=", ".join(foreign[:5]))


def _size(entry: Path) -> str:
    files = [entry] if entry.is_file() else [path for path in entry.rglob("*") if path.is_file()]
    size = float(sum(path.lstat().st_size for path in files))
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:  # noqa: PLR2004  (binary units)
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
