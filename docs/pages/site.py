"""MkDocs' hooks for the site: navigation by kind of page, and links to files outside docs/.

``mkdocs.yml`` names this file. Pages need no list: a new file in a folder is in the navigation.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Files of the project's root that are pages of the site too, by their place in it.
OF_THE_ROOT = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
}
SECTIONS = {
    "Tutorial": "tutorial",
    "How-to": "how-to",
    "Runbook": "runbook.md",
    "Reference": "reference",
    "Explanation": "explanation",
    "Decisions": "adr",
    "Project": "project",
}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^()\s#]+)(#[^()\s]*)?\)")


def on_config(config: MkDocsConfig) -> None:
    """Set the navigation: a section for each kind of page."""
    docs = Path(config.docs_dir)
    nav: list[dict[str, Any]] = [{"Home": "index.md"}]
    for title, place in SECTIONS.items():
        if place.endswith(".md"):
            nav.append({title: place})
        elif place == "project":
            nav.append({title: [page for file, page in OF_THE_ROOT.items() if (ROOT / file).exists()]})
        else:
            pages = sorted((docs / place).glob("*.md"), key=lambda page: (page.stem != "index", page.stem))
            nav.append({title: [f"{place}/{page.name}" for page in pages]})
    config.nav = nav


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are files of the project's root."""
    for name, place in OF_THE_ROOT.items():
        if (ROOT / name).exists():
            files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return the page's text with links as the site has them.

    A link to a folder leads to its index; one to a file that is not in the site becomes its path as code.
    """
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda link: _resolved(link, page), part)
        for part in re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    )


def _resolved(link: re.Match[str], page: Page) -> str:
    mark, text, target, anchor = link.groups()
    at = page.file.src_uri
    real = next((file for file, place in OF_THE_ROOT.items() if place == at), f"docs/{at}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(real), target))
    if (ROOT / path).is_dir() and (ROOT / path / "index.md").exists():
        path += "/index.md"
    place = OF_THE_ROOT.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
    if not (ROOT / path).exists():
        return link[0]  # MkDocs names it
    if not place or place.startswith("pages/"):
        return f"{text} (`{path}`)" if text.strip("`") != path else f"`{path}`"
    relative = posixpath.relpath(place, posixpath.dirname(at) or ".")
    return f"{mark}[{text}]({relative}{anchor or ''})"
