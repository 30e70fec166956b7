"""What Dagster loads: the definitions of the configuration in force.

Reads ``sluice.yaml`` (``SLUICE_CONFIG`` or the working directory's) and, for a ``topics_regex``, the topics
last listed under ``state:``. No broker, no catalog, no Spark is asked while loading.
"""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING

from orchestration.foreign_packages import refuse_foreign_packages

if TYPE_CHECKING:
    from dagster import Definitions


def _definitions() -> Definitions:
    refuse_foreign_packages()
    from orchestration.build import build_definitions  # noqa: PLC0415  (ours, now that it is known to be)
    from spark_jobs.config.file import load_written, with_listed_topics  # noqa: PLC0415
    from spark_jobs.protocol.errors import SluiceError  # noqa: PLC0415

    # What was imported until here outlives the end of the process. DuckDB, which a filter or an expression
    # brings in, must not be among it: it then tells on 44 lines what it leaves behind.
    gc.freeze()
    config = load_written()
    try:
        config = with_listed_topics(config)
    except SluiceError as error:  # the sensor of topics goes on asking, and has this loaded again
        logging.getLogger(__name__).warning("no topic of topics_regex is a pipeline yet: %s", error)
    for problem in config.problems:
        logging.getLogger(__name__).warning("left out of this code location: %s", problem)
    return build_definitions(config)


# The definitions live as long as the process, and a run's first step waits for them: a collector that walks
# them again and again while they are made finds nothing, and takes a fifth of the time of 1,000 pipelines.
gc.disable()
try:
    defs = _definitions()
    defs.get_repository_def()  # Dagster's own part, which every process that loads this needs
finally:
    gc.enable()
