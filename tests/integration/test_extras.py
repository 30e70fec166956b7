"""Sluice without what is optional: it imports and drains, and what is missing says what to type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import configure
from tests.support.new_lab import NewLab, as_json

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[2]
# What speaks HTTP: the parts of the extras `gateway` and `serve`, and what Dagster's own webserver goes with.
HTTP = re.compile(
    r"gateway\.|serving\.|servers\.(browser_guard|catalog|docs_page|gateway|serving|webserver)$"
)


def test_without_extras_it_imports_drains_and_says_what_to_type(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Of what nobody installed only the parts that need it are missing, each by name, with its line."""
    lab = NewLab(kafka, "", tmp_path, is_here=True)(as_json({"id": 1}, {"id": 2}))
    text, folder = lab.path.read_text(), lab.path.parent
    lab.path.rename(folder / "lab.yaml")
    expectation = {"expect_column_values_to_not_be_null": {"column": "id"}}
    (folder / "order.proto").write_text('syntax = "proto3"; message Order { int64 id = 1; }')
    for name, section, settings in (
        ("quality", "pipelines/orders", {"quality": [{"name": "whole", "expectations": [expectation]}]}),
        ("protobuf", "pipelines/orders", {"value": {"format": "protobuf", "file": "order.proto"}}),
        ("postgres", "catalog", {"type": "sql", "uri": "postgresql://127.0.0.1:9/lake"}),
        ("glue", "catalog", {"type": "glue"}),
        ("msk", "", {"kafka_auth": {"aws_msk_iam": {"region": "eu-central-1"}}}),
    ):
        (folder / f"{name}.yaml").write_text(text)
        configure(type(lab)(folder / f"{name}.yaml"), section, settings)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.bare_environment", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    came = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in came["lacking"] if not HTTP.match(name)] == []
    assert came["stopped"] == "caught-up"
    for extra, code, said in came["told"]:
        assert code == 78, (extra, said)
        assert "errors.md#extra-missing" in said, (extra, said)
        assert f"pip install 'sluice-lake[{extra}]'" in said, (extra, said)
    assert len(lab.__class__(folder / "lab.yaml").rows()) == 2
