"""Fixtures of the tests that run Dagster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker


@pytest.fixture
def new_lab(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> NewLab:
    """Makes the test's pipelines, each over a topic of its own."""
    return NewLab(kafka, spark_remote, tmp_path)
