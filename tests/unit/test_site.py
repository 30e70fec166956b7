"""The site of docs/ is built with warnings as errors, and brings all that it shows with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assets.checks import HOT_RUNBOOK, QUALITY_RUNBOOK
from docs.pages.errors import entries
from servers.docs_page import section_text
from spark_jobs.checks.registry import BY_NAME
from tests.support.prose import DOCS, ROOT

# What errors, checks and alerts print.
REFERENCES = {
    *(f"docs/reference/errors.md#{name.partition('.')[0]}" for name in entries()),
    *(check.runbook for check in BY_NAME.values()),
    *re.findall(r"runbook: (\S+)", (DOCS / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")),
    *(HOT_RUNBOOK, QUALITY_RUNBOOK),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as ``./sluice docs --build`` writes it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-P", "-m", "cli", "docs", "--build", folder]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site; a diagram would bring a script of a host."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(list((DOCS / "adr").glob("*.md")))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|srcset|href)=\"?([^\"\s>]+)", text
        )
        assert loaded
        assert [each for each in loaded if re.match(r"(?:https?:)?//", each)] == [], page
        assert 'class="mermaid"' not in text
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*|@import[^;]*", text) == [], style


def test_what_is_printed_leads_to_a_section(site: Path) -> None:
    """Of the site, and of the pages that every installation has."""
    pages = {
        page: (site / page).with_suffix(".html").read_text(encoding="utf-8")
        for page in {reference.partition("#")[0].removeprefix("docs/") for reference in REFERENCES}
    }
    for reference in sorted(REFERENCES):
        page, _, anchor = reference.removeprefix("docs/").partition("#")
        assert f'id="{anchor}"' in pages[page], reference
        assert section_text(reference), reference


def test_a_section_is_found_by_its_code() -> None:
    """With what stands below its heading, and no more; nothing outside of docs is read."""
    text = section_text("no-broker")
    assert text is not None
    assert text.startswith("## no-broker\n")
    assert text.count("## ") == 1
    assert [section_text(name) for name in ("no-such-code", "docs/../README.md#sluice", "nope.md#x")] == [
        None
    ] * 3


def test_the_site_can_be_searched_and_is_sorted_by_kind(site: Path) -> None:
    """Light and dark, with an index of all words."""
    assert (site / "search" / "search_index.json").stat().st_size > 100_000
    home = (site / "index.html").read_text(encoding="utf-8")
    for each in ("Tutorial", "How-to", "Runbook", "Reference", "Explanation", "prefers-color-scheme: dark"):
        assert each in home
