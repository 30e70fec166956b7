"""The page of `serve` as a person sees and uses it, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from serving.service import QueryService
from spark_jobs.config.listener import ServeSettings
from spark_jobs.hot.tail_status import State, TailStatus
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SourceChanged
from tests.support.asked import Drained, answering
from tests.support.lake import Lake
from tests.support.recovery_scene import make_scene

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.browser import Page

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module", autouse=True)
def signed_in() -> None:
    """Nobody asks for a token here, and Dagster's pages are not these tests' matter."""


def test_a_person_asks_and_sees_rows_and_how_fresh_they_are(
    page: Page, sqlite_catalog_properties: dict[str, str], tmp_path: Path
) -> None:
    """Rows of the table, what SQL is refused for, and the watermark as it moves on."""
    scene = make_scene(Lake("sqlite", sqlite_catalog_properties, "lake"), str(tmp_path / "state"))
    scene.lake.drain(0, 30)
    pipelines = {name: scene.pipeline.model_copy(update={"name": name}) for name in ("orders", "returns")}
    tails = Drained(pipelines, scene.connections)
    tails.states["orders"] = TailStatus(
        "orders", State.LIVE, Watermark(1, 0, {0: 30, 1: 4}), 7, 2_500_000, 200
    )
    reason = SourceChanged("it has other records", code="topic-recreated", hint="Accept <b>it</b>.")
    tails.states["returns"] = TailStatus("returns", State.FAILED, reason=reason)
    service = QueryService(list(pipelines.values()), tails.connections, tails, ServeSettings())
    with answering(service) as client:
        page.open(str(client.base_url))
        page.wait_for("orders live 0.2 s old, 7 rows not in lake.t yet, 2.5 MB", "watermark 0:30, 1:4")
        page.wait_for("Tables and columns", "lake.t", "id int64", "name string", "maximum 0.2 s")
        page.wait_for("it has other records [topic-recreated] Accept <b>it</b>.")
        page.wait_until("document.getElementById('sql').value.includes('FROM lake.t')")
        write(
            page, "SELECT id, name, {'k': [id]} AS nested, NULL AS nothing FROM t WHERE id > 27 ORDER BY id"
        )
        page.click("Run")
        page.wait_for("2 rows in", "watermark 0.0/0:30", '{"k":[29]}', "null", "n28")
        write(page, "SELECT nme FROM t")
        page.click("Run")
        page.wait_for("Binder Error", "[query-refused]", "Query only the tables t and dead_letters")
        write(page, "SELECT i, '],[\"' || repeat('x', 90) AS x FROM range(10000000) AS r(i)")
        page.click("Run")
        page.wait_for("the first 1000 rows in")
        tails.states["orders"] = TailStatus(
            "orders", State.CATCHING_UP, Watermark(1, 0, {0: 31, 1: 4}), age_ms=9_000
        )
        page.wait_for("orders catching-up 9.0 s old", "watermark 0:31, 1:4")
        ran = page.evaluate(
            "(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
            " document.body.append(s); return window.ran === 1 })()"
        )
    assert not ran


def write(page: Page, sql: str) -> None:
    """Put the SQL in the place of what is there."""
    page.evaluate("document.getElementById('sql').select()")
    page.click("SQL", within="textarea")
    page.evaluate("document.getElementById('sql').select()")
    page.type(sql)
