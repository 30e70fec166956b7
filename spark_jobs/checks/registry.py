"""The built-in checks that there are: every module of ``spark_jobs.checks.built_in`` is one. Pure."""

from __future__ import annotations

import importlib
import pkgutil
from operator import attrgetter

from spark_jobs.checks.check import Check

FOLDER = "spark_jobs.checks.built_in"


def find_checks() -> tuple[Check, ...]:
    """Return the checks of the folder, or of the archive that it is shipped in, by their places."""
    names = [module.name for module in pkgutil.iter_modules(importlib.import_module(FOLDER).__path__)]
    checks: list[Check] = [importlib.import_module(f"{FOLDER}.{name}").CHECK for name in names]
    return tuple(sorted(checks, key=attrgetter("place")))


CHECKS = find_checks()
BY_NAME = {check.name: check for check in CHECKS}
