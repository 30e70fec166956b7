"""Process settings that spare memory and processor time."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def leave_pandas_out() -> None:
    """Have Arrow do without pandas in this process, which saves 30 MiB; PySpark could not."""
    sys.meta_path.insert(0, _WithoutPandas())


def read_migrations_once() -> None:
    """Have Dagster read the 90 files of its migrations once here, not at each tick and start of a run."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415  (only for who has a database)

    read, known = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def from_config(config: Config) -> ScriptDirectory:
        where = config.get_main_option("script_location")
        if where not in known:
            known[where] = read(config)
        return known[where]

    ScriptDirectory.from_config = from_config  # type: ignore[method-assign]
