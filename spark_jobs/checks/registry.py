"""The registry of built-in checks: every module of ``spark_jobs.checks.built_in`` is one. Pure."""

from __future__ import annotations

import importlib
import pkgutil
from operator import attrgetter

from spark_jobs.checks.check import Check

FOLDER = f"{__package__}.built_in"
# pkgutil also lists modules inside the archive in which the code is shipped to Spark.
_NAMES = [module.name for module in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__)]
_FOUND: list[Check] = [importlib.import_module(f"{FOLDER}.{name}").CHECK for name in _NAMES]
CHECKS = tuple(sorted(_FOUND, key=attrgetter("place")))
BY_NAME = {check.name: check for check in CHECKS}
