"""The pages of commands and of metrics are what the commands and the exporter say of themselves."""

from __future__ import annotations

import re

import pytest

from cli.listing import COMMANDS
from docs.pages import commands as command_docs
from docs.pages import metrics as metric_docs
from docs.pages import retries as retry_docs
from spark_jobs.monitoring.metric_families import FAMILIES


@pytest.mark.parametrize("docs", [command_docs, metric_docs])
def test_committed_pages_are_generated(docs):
    """An option or a metric cannot change without its page: ``python -m docs.pages.commands`` writes it."""
    assert docs.PAGE.read_text(encoding="utf-8") == docs.render()


def test_what_is_tried_again_is_told_as_the_code_has_it():
    """A constant cannot change without the table: ``python -m docs.pages.retries`` writes it."""
    page = retry_docs.PAGE.read_text(encoding="utf-8")
    assert page == retry_docs.render()


def test_every_command_has_its_place():
    """Each command, and each command of a group, is a heading of its own, once."""
    headings = re.findall(r"^### (.+)$", command_docs.render(), re.MULTILINE)
    groups = {"held list", "held publish", "held discard"}
    assert sorted(headings) == sorted({entry.name for entry in COMMANDS} | groups)


def test_every_metric_has_a_row():
    """Name, kind and labels, as dashboards need them."""
    page = metric_docs.render()
    assert all(f"| `{family.name}` | {family.kind} |" in page for family in FAMILIES.values())
