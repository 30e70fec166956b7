"""YAML to a ``Document``: every scalar as its text, the line of every key, no value ever in a message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import yaml

from spark_jobs.config.problems import ConfigProblem, Document, Path

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
# Values that a file may have by aliases beside those that are written: a thousand pipelines with fifty each.
MOST_BY_ALIASES = 50_000
_EXPECTATIONS = "expectations"
# JSON's spellings: what is typed has no surprises such as 0123, on or 12:30.
_ARGUMENT_TYPES = {
    "tag:yaml.org,2002:int": re.compile(r"-?(0|[1-9]\d*)"),
    "tag:yaml.org,2002:float": re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"),
    "tag:yaml.org,2002:bool": re.compile(r"true|false"),
}
_TYPED_BY_THE_MODELS = ("bool", "int", "float", "timestamp")


class _TextLoader(yaml.SafeLoader):
    """Leaves scalars as written: YAML 1.1 would make ``0123`` of a password 83 and ``on`` of a name True."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (the base class declares it so)
        first: [
            (tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _TYPED_BY_THE_MODELS
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_document(file: str, text: str) -> tuple[Document | None, list[ConfigProblem]]:
    """Parse one file; ``file`` is how messages name it. No document when it is not YAML or not a map."""
    loader = _TextLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return Document(file, {}), []
        if problem := _bomb(file, root):
            return None, [problem]
        reader = _NodeReader(file)
        reader.walk(root, ())
        for node in reader.expectations:
            _type_arguments(node)
        content = _text_keys(loader.construct_document(root))
    except RecursionError:
        return None, [
            ConfigProblem(file, None, "", "an anchor contains its own alias", "Write the values out.")
        ]
    except yaml.YAMLError as error:
        return None, [_syntax_problem(file, error)]
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        return None, [ConfigProblem(file, 1, "", "must be a map of key: value", "Start with version: 1.")]
    return Document(file, content, reader.lines), reader.problems


def _bomb(file: str, root: yaml.Node) -> ConfigProblem | None:
    """Return what is wrong with aliases of aliases, which come to more values than anybody writes."""
    sizes: dict[int, int] = {}

    def first_too_large(node: yaml.Node) -> yaml.Node | None:
        sizes[id(node)] = 1  # where it is its own part: construction tells
        found = None
        for part in _parts(node):
            if id(part) not in sizes and (found := first_too_large(part)):
                return found
            sizes[id(node)] += sizes[id(part)]
        return node if sizes[id(node)] > len(sizes) + MOST_BY_ALIASES else None

    node = first_too_large(root)
    if node is None:
        return None
    told = f"is {sizes[id(node)]:,} values with its aliases written out, which may add {MOST_BY_ALIASES:,}"
    hint = "Write its values out, or name fewer aliases inside of others."
    return ConfigProblem(file, node.start_mark.line + 1, "", told, hint)


def _parts(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


class _NodeReader:
    """Collects the lines of all keys and the keys given twice."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Path, int] = {}
        self.problems: list[ConfigProblem] = []
        self.expectations: list[yaml.Node] = []
        self._visited: set[int] = set()

    def walk(self, node: yaml.Node, path: Path) -> None:
        if id(node) in self._visited:  # an alias: the line of its use stands for all below it
            return
        self._visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._walk_map(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*path, str(index))] = item.start_mark.line + 1
                self.walk(item, (*path, str(index)))

    def _walk_map(self, node: yaml.MappingNode, path: Path) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name in seen and name != "<<":
                told = f"is given twice, first in line {seen[name]}"
                self.problems.append(
                    ConfigProblem(self.file, line, ".".join((*path, name)), told, "Keep one.")
                )
            seen[name] = line
            self.lines[(*path, name)] = line
            if name == _EXPECTATIONS:
                self.expectations.append(value)
            self.walk(value, (*path, name))


def _type_arguments(node: yaml.Node) -> None:
    """Let unquoted numbers and truth values be what they look like: an expectation's arguments have types."""
    if isinstance(node, yaml.ScalarNode):
        kinds = (tag for tag, form in _ARGUMENT_TYPES.items() if form.fullmatch(node.value))
        node.tag = next(kinds, node.tag) if node.style is None else node.tag
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _type_arguments(item)
    elif isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            _type_arguments(value)


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_text_keys(item) for item in value]
    return value


def _syntax_problem(file: str, error: yaml.YAMLError) -> ConfigProblem:
    # The library's own text quotes the line, and an alias or a tag it names may be an unquoted password.
    if not isinstance(error, yaml.MarkedYAMLError):
        return ConfigProblem(file, None, "", "cannot be read as YAML", "Is it UTF-8 text?")
    mark = error.problem_mark or error.context_mark
    problem = _QUOTED.sub("…", error.problem or "is not YAML")
    hint = "Quote values that begin with a special character such as * & ! % @ or hold ': ' or ' #'."
    if "\\t" in (error.problem or ""):
        problem, hint = (
            "a tab cannot indent",
            "Indent with spaces; the number is yours, the same for all of a level.",
        )
    return ConfigProblem(file, mark.line + 1 if mark else None, "", problem, hint)
