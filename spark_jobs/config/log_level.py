"""How much is told: one level for the command line, Dagster's runs and librdkafka."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import ConfigError

VARIABLE = "SLUICE_LOG_LEVEL"
LEVELS = ("debug", "info", "warning", "error")
_LOGGERS = tuple(logging.getLogger(name) for name in ("spark_jobs", "resources"))


class ScrubbedLines(logging.Formatter):
    """A record's line without secrets: an error's text may carry what a broker or catalog was told."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message; of an exception its traceback too."""
        return scrub(super().format(record))


def use_log_level() -> None:
    """Take over the level that the environment names, ``info`` without one. Raises ``ConfigError``."""
    level = os.environ.get(VARIABLE, "").lower() or "info"
    if level not in LEVELS:
        raise ConfigError(f"{VARIABLE} is {level}", code="log-level", hint=f"There are {', '.join(LEVELS)}.")
    for logger in _LOGGERS:
        logger.setLevel(level.upper())


@contextmanager
def told_by(handler: logging.Handler) -> Iterator[None]:
    """Give ``handler`` what Sluice says on its way, for as long as the body runs. Raises ``ConfigError``."""
    before = [logger.level for logger in _LOGGERS]
    handler.setFormatter(ScrubbedLines())
    for logger in _LOGGERS:
        logger.addHandler(handler)
    try:
        use_log_level()
        yield
    finally:
        for logger, level in zip(_LOGGERS, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
