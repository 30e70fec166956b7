"""A run's log in Dagster has what Sluice says on its way, as the terminal has it for a command."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager

from spark_jobs.config.secrets import told_by


class _Forward(logging.Handler):
    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, self.format(record))


def told_in(log: logging.Logger) -> AbstractContextManager[None]:
    """Forward it to a run's ``context.log`` for as long as the body runs."""
    return told_by(_Forward(log))
