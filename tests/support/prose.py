"""The project's prose: pages, the errors' catalogue and first docstring lines, as sentences and words.

``python -m tests.support.prose`` writes ``tests/habits.toml`` with today's counts.
With names of files it prints what is counted in them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ALLOWED = ROOT / "tests" / "habits.toml"
CATALOGUE = "spark_jobs/protocol/errors.toml"
PRODUCT = ("assets", "cli", "gateway", "orchestration", "resources", "servers", "serving", "spark_jobs")
LONGEST = 40
# Phrases that make a text hard to read, by name: see "Words" in CONTRIBUTING.md.
HABITS = {
    "tell": r"\b(?:tells?|told|telling)\b",
    "say": r"\b(?:says?|said|saying)\b",
    "nobody": r"\b(?:whoever|nobody|anybody|somebody)\b",
    "anew": r"\banew\b",
    "so many": r"\bso many\b(?! as)",
    "but for": r"\bbut for\b",
    "of which": r"\bof (?:which|whose)\b",
    "beside": r"\bbeside\b",
    "come to": r"\b(?:comes?|came) to\b",
    "is made": r"\b(?:is|are|was|were|be|been) made\b",
    "stands": r"(?<!-)\b(?:goes|stands?|lies)\b(?!-)",
    "mend": r"\bmend(?:s|ed|ing)?\b",
    "wants": r"\bwants\b",
    "is gone": r"\b(?:is|are) gone\b",
    "by now": r"\bby now\b",
    "once more": r"\bonce more\b",
    "letters": r"(?<!dead )(?<!dead-)(?<!capital )(?<!but )(?<!\()\bletters\b(?!-)",
    "is no": r"\b(?:is|are|was|were) no\b(?! longer| more than| later)",
}
FIRST_WORDS = r"^(?:What|Whether|Where|Who|Those)\b"
_HABITS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in HABITS.items()}
_DOCSTRING = re.compile(r'^ *r?"""(\S[^\n]*)', re.MULTILINE)


def pages() -> list[Path]:
    """Return the README and every page of docs."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def plain(markdown: str) -> str:
    """Return a page's prose, without code, pictures and targets of links; cells of tables are paragraphs."""
    text = re.sub(r"^ *```.*?^ *```[^\n]*$", "\n\n", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"``[^`]+``|`[^`\n]+`", "CODE", text)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lines = (
        line.replace("|", "\n\n") if line.lstrip().startswith("|") else line for line in text.split("\n")
    )
    text = re.sub(r"<[^>\n]+>", "", "\n".join(lines))
    # A line break inside a paragraph is a blank.
    return re.sub(r"(?<!\n)\n(?! *(?:[-*#>]|\d+\.) |\n)", " ", text)


def words(text: str) -> int:
    """Return the number of tokens with a letter or a digit."""
    return sum(any(map(str.isalnum, token)) for token in text.split())


def sentences(prose: str) -> Iterator[str]:
    """Yield the sentences of prose; a heading, an item of a list and a cell of a table end one."""
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*#>]|\d+\.) )", prose):
        text = " ".join(re.sub(r"^ *(?:[-*#>]+|\d+\.) ", "", block).split())
        yield from filter(None, re.split(r"(?<=[.!?])[)\"'*]* +(?=[\"'(*A-Z0-9./])", text))


@cache
def catalogue() -> dict[str, str]:
    """Return messages and hints of the errors' catalogue, by code and kind."""
    read = tomllib.loads((ROOT / CATALOGUE).read_text(encoding="utf-8"))
    return dict(_texts(read, ""))


def _texts(entry: dict[str, object], at: str) -> Iterator[tuple[str, str]]:
    for name, value in entry.items():
        if isinstance(value, dict):
            yield from _texts(value, f"{at}.{name}".lstrip("."))
        elif name in {"message", "hint"} and isinstance(value, str):
            yield f"{at} {name}", re.sub(r"\{[^}]*\}", "NAME", value)


def habits_of(prose: str) -> Counter[str]:
    """Return how often each habit is in the text."""
    found = Counter({name: len(pattern.findall(prose)) for name, pattern in _HABITS.items()})
    return +found


def prose_of(file: str) -> str:
    """Return what is read of a file: a page, the catalogue's texts or the first lines of docstrings."""
    if file == CATALOGUE:
        return plain("\n\n".join(catalogue().values()))
    text = (ROOT / file).read_text(encoding="utf-8")
    return plain(text if file.endswith(".md") else "\n\n".join(_DOCSTRING.findall(text)))


def found_in(file: str) -> list[tuple[str, str]]:
    """Return each phrase to avoid in a file, by name, with the words around it."""
    prose = prose_of(file)
    found = [
        (name, " ".join(prose[max(0, match.start() - 60) : match.end() + 40].split()))
        for name, pattern in _HABITS.items()
        for match in pattern.finditer(prose)
    ]
    if file.endswith(".py"):
        found += [("first word", line) for line in prose.split("\n\n") if re.match(FIRST_WORDS, line)]
    if file in {CATALOGUE, "README.md"} or re.match(r"docs/(?:tutorial/|how-to/|[^/]+$)", file):
        found += [("long sentence", each) for each in sentences(prose) if words(each) > LONGEST]
    return found


def counted() -> dict[str, dict[str, int]]:
    """Return the counts of every file that has some: pages, the catalogue and the product's Python."""
    python = [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    files = sorted(path.relative_to(ROOT).as_posix() for path in (*pages(), *python))
    counts = {file: Counter(name for name, _ in found_in(file)) for file in (*files, CATALOGUE)}
    return {file: dict(sorted(habits.items())) for file, habits in counts.items() if habits}


def allowed() -> dict[str, dict[str, int]]:
    """Return the counts that ``tests/habits.toml`` allows."""
    read: dict[str, dict[str, int]] = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))
    return read


def write() -> None:
    """Write today's counts as those that are allowed."""
    lines = [
        "# Phrases to avoid that files still hold, by file: a count may only sink. Written by",
        "# `python -m tests.support.prose` (tests/support/prose.py has what each name means).",
    ]
    for file, habits in counted().items():
        pairs = ", ".join(f'"{name}" = {count}' for name, count in habits.items())
        lines.append(f'"{file}" = {{{pairs}}}')
    ALLOWED.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for named in sys.argv[1:]:
        for name, words_around in found_in(named):
            print(f"{named}: {name}: {words_around}")  # noqa: T201
    if not sys.argv[1:]:
        write()
