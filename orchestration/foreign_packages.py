"""Refuses to load another project's ``assets`` or ``resources`` in place of ours.

Dagster puts the working directory first on the import path, and these are names that many projects use.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from spark_jobs import WITHIN
from spark_jobs.protocol.errors import fault

PACKAGES = ("orchestration", "assets", "resources", "servers", "spark_jobs")


def refuse_foreign_packages(root: Path | None = None) -> None:
    """Check where each of our packages would be imported from; ``root`` is the folder they must stand in.

    Raises ``ConfigError`` (``foreign-package``) naming both paths.
    """
    root = root or Path(__file__).resolve().parents[1]
    for name in PACKAGES:
        package, expected = f"{WITHIN}{name}", root / name / "__init__.py"
        spec = importlib.util.find_spec(package)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found != expected:
            raise fault(
                "foreign-package",
                package=package,
                found=found or "a folder without __init__.py",
                wanted=expected,
            )
