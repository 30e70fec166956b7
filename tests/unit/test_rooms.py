"""What modules say of themselves holds: one that calls itself pure can touch nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("spark_jobs", "gateway", "serving", "resources", "assets", "orchestration", "servers", "cli")
# What gives the same for the same arguments: no clock, file, variable, socket or random number behind it.
HARMLESS = frozenset(
    {
        *(
            "__future__",
            "ast",
            "bisect",
            "collections",
            "collections.abc",
            "contextlib",
            "dataclasses",
            "datetime",
            "decimal",
        ),
        *("difflib", "enum", "functools", "hashlib", "ipaddress", "itertools", "json", "math", "operator"),
        "posixpath",
        # As an import statement does; what is found by them is held to be pure below.
        *("importlib", "pkgutil"),
        *("pydantic", "pydantic.fields", "pydantic_core", "re", "tomllib", "typing", "urllib.parse"),
        # The same for the same arguments too: the rules of a time zone come with the environment.
        *("croniter", "zoneinfo"),
        # Types and names of columns; what reads and writes tables is elsewhere in it.
        "pyiceberg.schema",
    }
)
_TREES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
}
_IS_PURE = re.compile(r"\bpure\b", re.IGNORECASE)
_PURE = {name for name, tree in _TREES.items() if _IS_PURE.search(ast.get_docstring(tree) or "")}


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & _TREES.keys()) or {str(node.module)}
    return found


def _clocks(tree: ast.Module) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.attr for call in calls if isinstance(call, ast.Attribute)} & {"now", "today", "utcnow"}


def test_the_rules_of_the_protocol_call_themselves_pure():
    """The word is in use: offsets, fences, planning and recovery's decisions are among the pure modules."""
    assert {
        "spark_jobs.protocol.offsets",
        "spark_jobs.protocol.source",
        "spark_jobs.drain.planning",
        "spark_jobs.recovery.decide",
    } <= _PURE
    assert all(name in _PURE for name in _TREES if re.match(r"spark_jobs\.protocol\.(?!__)", name))
    assert all(name in _PURE for name in _TREES if re.match(r"spark_jobs\.checks\.built_in\.(?!__)", name))


@pytest.mark.parametrize("name", sorted(_PURE))
def test_a_pure_module_touches_nothing(name):
    """It imports pure modules and harmless parts of the standard library, and asks no clock."""
    tree = _TREES[name]
    assert _imports(tree) - _PURE - HARMLESS == set()
    assert _clocks(tree) == set()


def test_only_import_statements_say_where_a_module_is() -> None:
    """A wheel has all packages in one and rewrites ``from`` alone: no text names a module of a clone."""
    known = {name.removesuffix(".__init__") for name in _TREES}
    known = {name for name in known if "." in name}
    for name, tree in _TREES.items():
        nodes = list(ast.walk(tree))
        behind = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        texts = (n.value for n in nodes if isinstance(n, ast.Constant) and id(n) not in behind)
        assert not {text for text in texts if isinstance(text, str)} & known, name
        imported = {a.name.partition(".")[0] for n in nodes if isinstance(n, ast.Import) for a in n.names}
        assert not imported & set(FOLDERS), name
