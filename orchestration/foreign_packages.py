"""Refuses to load another project's ``assets`` or ``resources`` instead of Sluice's.

Dagster puts the working directory first on the import path, and many projects use these names.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from spark_jobs import WITHIN
from spark_jobs.protocol.errors import fault

PACKAGES = ("orchestration", "assets", "resources", "servers", "spark_jobs")


def refuse_foreign_packages(root: Path | None = None) -> None:
    """Check where each of Sluice's packages would be imported from; ``root`` is their expected folder.

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
