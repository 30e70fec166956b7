"""The module that Dagster loads: the definitions of the current configuration.

Reads ``sluice.yaml`` (``SLUICE_CONFIG`` or the working directory's) and, for a ``topics_regex``, the topics
last listed under ``state:``. Loading sends no request to broker, catalog or Spark.
"""

from __future__ import annotations

import gc
import logging
import sys
from typing import TYPE_CHECKING

from orchestration.foreign_packages import refuse_foreign_packages

if TYPE_CHECKING:
    from dagster import Definitions


def _definitions() -> Definitions:
    refuse_foreign_packages()
    from orchestration.build import build_definitions  # noqa: PLC0415  (ours, now that it is known to be)
    from servers.code_server import is_code_server  # noqa: PLC0415
    from servers.light_process import leave_pandas_out, read_migrations_once  # noqa: PLC0415
    from servers.runs import renew_resident  # noqa: PLC0415
    from spark_jobs.config.file import load_written, with_listed_topics  # noqa: PLC0415
    from spark_jobs.protocol.errors import SluiceError  # noqa: PLC0415

    renew_resident()  # it loads them meanwhile
    if is_code_server():
        leave_pandas_out()
    read_migrations_once()
    # Modules imported before this line are frozen until the process ends. DuckDB, which filters and
    # expressions import, must not be among them: it would print 44 lines about leaked objects.
    gc.freeze()
    config = load_written()
    try:
        config = with_listed_topics(config)
    except SluiceError as error:  # the topics sensor lists them again and reloads this module
        logging.getLogger(__name__).warning("topics_regex matches no listed topic yet: %s", error)
    for problem in config.problems:
        logging.getLogger(__name__).warning("a pipeline is left out of this code location: %s", problem)
    return build_definitions(config)


# The definitions live as long as the process, and a run's first step waits for them. Garbage collection while
# they are built finds nothing, and takes a fifth of the time with 1,000 pipelines.
gc.disable()
try:
    defs = _definitions()
    defs.get_repository_def()  # Dagster's own part, which every process that loads this needs
    if "duckdb" not in sys.modules:
        gc.freeze()
finally:
    gc.enable()
    # The daemon's questions make as many objects again. By default Python looks for garbage after 700.
    gc.set_threshold(50_000)
