"""Pages of docs for a browser, beside Dagster's: where a check's runbook and an error's code lead."""

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

DOCS = Path(__file__).resolve().parents[1] / "docs"


def _page(request: Request) -> Response:
    """Return the page of that name, its headings as anchors."""
    file = (DOCS / f"{request.path_params['name']}.md").resolve()
    if not file.is_relative_to(DOCS) or not file.is_file():
        return HTMLResponse("There is no such page beside this installation of Sluice.", 404)
    reader = MarkdownIt().enable("table")
    tokens = reader.parse(file.read_text(encoding="utf-8"))
    for heading, title in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", re.sub(r"[^\w\- ]", "", title.content.lower()).replace(" ", "-"))
    text = reader.renderer.render(tokens, reader.options, {})
    return HTMLResponse(f"<body style='font-family: sans-serif; max-width: 60em; margin: auto'>{text}")


PAGES = Route("/docs/{name:path}.md", _page)
