"""The 95th percentile of a few figures."""

from __future__ import annotations

import math
from collections.abc import Sequence


def p95(figures: Sequence[float]) -> float:
    """The smallest figure that 95 % do not exceed: one that was measured, and of less than 20 the largest."""
    return sorted(figures)[math.ceil(0.95 * len(figures)) - 1]
