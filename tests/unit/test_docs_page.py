"""Pages of docs beside Dagster's own, which links in its pages lead to."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette

from assets.checks import HOT_RUNBOOK as HOT
from assets.checks import QUALITY_RUNBOOK as QUALITY
from servers.docs_page import PAGES
from spark_jobs.checks.registry import BY_NAME


def get(path: str) -> httpx.Response:
    """What a browser is given."""

    async def ask() -> httpx.Response:
        served = httpx.ASGITransport(Starlette(routes=[PAGES]))
        async with httpx.AsyncClient(transport=served, base_url="http://ui") as client:
            return await client.get(path)

    return asyncio.run(ask())


@pytest.mark.parametrize("page", ["docs/runbook.md", "docs/reference/errors.md"])
def test_what_dagster_links_to_opens(page: str) -> None:
    """Every runbook, and an error's description, is a section of a page that is served."""
    links = [
        *(check.runbook for check in BY_NAME.values()),
        HOT,
        QUALITY,
        "docs/reference/errors.md#no-such-topic",
    ]
    shown = get(f"/{page}")
    assert shown.status_code == 200
    sections = [link.partition("#")[2] for link in links if link.startswith(page)]
    assert [section for section in sections if f'id="{section}"' not in shown.text] == []


def test_nothing_else_is_served() -> None:
    """A name that leads out of docs, or to no page, is not found."""
    assert [get(path).status_code for path in ("/docs/NO.md", "/docs/..%2FREADME.md")] == [404, 404]
