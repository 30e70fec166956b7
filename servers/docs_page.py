"""Pages of docs for a browser and a terminal: runbook sections of checks, and sections of error codes."""

import re
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

DOCS = Path(__file__).resolve().parents[1] / "docs"
ERRORS = "reference/errors.md"
_PICTURES = {".png", ".svg"}


def anchor_of(heading: str) -> str:
    """Return the anchor of a heading's text, the same as the site's and as GitHub's."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def section_text(reference: str) -> str | None:
    """Return the Markdown of a section: ``docs/PAGE.md#anchor`` or an error code; None if there is none."""
    page, _, anchor = reference.rpartition("#") if ".md" in reference else (ERRORS, "", reference)
    file = _file(page.removeprefix("docs/"), {".md"})
    if file is None:
        return None
    found: list[str] = []
    level = 0
    is_code = False
    for line in file.read_text(encoding="utf-8").splitlines():
        is_code ^= line.startswith("```")
        heading = None if is_code else re.match(r"(#+) (.*)", line)
        if heading and found and len(heading[1]) <= level:
            break
        if heading and not found and anchor_of(heading[2]) == anchor:
            level = len(heading[1])
        if level:
            found.append(line)
    return "\n".join(found).rstrip() or None


def docs_app(site: Path | None) -> Starlette:
    """Return an application that serves a built site, or the pages themselves if ``site`` is None."""
    if site is None:
        return Starlette(routes=[Route("/", lambda _: RedirectResponse("/docs/index.md")), PAGES])
    return Starlette(
        routes=[Route("/docs/{name:path}.md", _in_site), Mount("/", StaticFiles(directory=site, html=True))]
    )


def _in_site(request: Request) -> Response:
    return RedirectResponse(f"/{request.path_params['name']}.html")


def _file(name: str, kinds: set[str]) -> Path | None:
    file = (DOCS / name).resolve()
    return file if file.is_relative_to(DOCS) and file.suffix in kinds and file.is_file() else None


def _page(request: Request) -> Response:
    """Return the page of that name with anchors at its headings, or the picture."""
    file = _file(request.path_params["name"], {".md", *_PICTURES})
    if file is None:
        return HTMLResponse("There is no such page in this installation of Sluice.", 404)
    if file.suffix in _PICTURES:
        return FileResponse(file)
    reader = MarkdownIt().enable("table")
    tokens = reader.parse(file.read_text(encoding="utf-8"))
    for heading, title in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", anchor_of(title.content))
    text = reader.renderer.render(tokens, reader.options, {})
    return HTMLResponse(f"<body style='font-family: sans-serif; max-width: 60em; margin: auto'>{text}")


PAGES = Route("/docs/{name:path}", _page)
