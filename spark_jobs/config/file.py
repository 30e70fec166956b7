"""Finding and reading of ``sluice.yaml`` and its team files.

Loading a configuration asks no broker: for ``topics_regex`` its topics are those last listed. The list lies
under ``state:``, where every machine has the same; Dagster's sensor of topics, ``up``, ``validate`` and
``status`` make it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from spark_jobs.config.build import ConfigReading, build_config
from spark_jobs.config.contradictions import Lent, check_borrowed, plain_secrets
from spark_jobs.config.expansion import expand
from spark_jobs.config.judge_process import judge, judge_apart
from spark_jobs.config.listener import CLEAR_HINT
from spark_jobs.config.problems import ConfigProblem, Document, Finding, in_order, mistake
from spark_jobs.config.problems import Path as KeyPath
from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.latest import read_latest, write_latest

if TYPE_CHECKING:
    from spark_jobs.storage.create_only import CreateOnlyStore


DEFAULT_FILE_NAME = "sluice.yaml"
ENVIRONMENT_CONFIG = "SLUICE_CONFIG"
ENVIRONMENT_TEXT = "SLUICE_CONFIG_YAML"
ENVIRONMENT_HOME = "SLUICE_HOME"
DEMO_FILE = "demo.yaml"  # in the state folder: what the demo that ran there last was told to do
# In force without any file. Small batches make the small files that the demo then shows being compacted.
DEMO_CONFIG = """\
version: 1
pipelines:
  flights: {topic: flights, table: lake.flights}
  weather: {topic: weather, table: lake.weather, max_batch_records: 4000, hot: true}
"""
LISTING = "topics"  # the folder under `state:`
_GLOB_CHARACTERS = frozenset("*?[")
# Of a team file: what is read in a second. The main file has those who own the machine.
MOST_TEAM_BYTES = 128 << 10


def load_config(path: Path | None = None) -> SluiceConfig:
    """Return the effective configuration, with ``topics_regex`` expanded by the last list of topics.

    It is the file of ``path``, else of ``SLUICE_CONFIG``, else the text of ``SLUICE_CONFIG_YAML``, else
    ``./sluice.yaml``, else that of the demo that ran here, else the demo's. Raises ``ConfigError`` with every
    mistake of the main file, one a line; mistakes of team files do not raise: they are ``config.problems``.
    Where there is a ``topics_regex``, raises as ``with_listed_topics`` too.
    """
    return with_listed_topics(load_written(path))


def load_written(path: Path | None = None) -> SluiceConfig:
    """Return the configuration like ``load_config``, without expanding ``topics_regex``."""
    reading = read_config(path)
    if reading.config is None or reading.problems:
        lines = "\n".join(f"  {problem}" for problem in reading.problems)
        count = len(reading.problems)
        raise fault("bad-config", count=count, plural="s" if count != 1 else "", mistakes=lines)
    return reading.config


def read_config(path: Path | None = None) -> ConfigReading:
    """Return configuration and mistakes like ``load_written``; raises only for no file or two sources."""
    file = find_config_file(path)
    text = os.environ.get(ENVIRONMENT_TEXT) if file is None else None
    main, problems = _read(file) if file else parse_document("", text or _demo_text())
    if main is None:
        return ConfigReading(None, tuple(problems))
    home = home_folder(file)
    folder = (file or home).parent
    teams, team_problems = _read_teams(main, folder)
    built = build_config(
        main, teams, home=str(home), folder=str(folder), judge=judge, judge_apart=judge_apart
    )
    mistakes = in_order([*problems, *built.problems])
    if built.config is None:
        return ConfigReading(None, mistakes, tuple(plain_secrets(main)))
    notes = (*plain_secrets(main), *_tokens_in_clear(main, built.config))
    config = built.config.model_copy(update={"problems": (*team_problems, *built.config.problems)})
    return ConfigReading(config, mistakes, notes)


def _tokens_in_clear(main: Document, config: SluiceConfig) -> Iterator[ConfigProblem]:
    for each in (config.ui, config.metrics, config.catalog_server, config.serve, config.gateway):
        if reason := each.tokens_in_clear:
            yield main.locate(Finding((each.section, "listen"), reason, CLEAR_HINT))


def with_listed_topics(config: SluiceConfig) -> SluiceConfig:
    """Expand ``topics_regex`` by the last stored list of topics; by none before the first.

    Raises as the storage under ``state:`` does, and ``ConfigError`` for a missing secret.
    """
    if not config.templates:
        return config
    return expand(config, listed_topics(config))


def listed_topics(config: SluiceConfig) -> list[str]:
    """Return the last stored list of topics, those that have a name or table first."""
    topics: list[str] = json.loads(read_latest(_store(config), LISTING) or "[]")
    return topics


def write_topics(config: SluiceConfig, topics: Iterable[str]) -> None:
    """Store a list of the broker's topics, unless it is unchanged."""
    store, listing = _store(config), json.dumps([*topics])
    if read_latest(store, LISTING) != listing:
        write_latest(store, LISTING, listing)


def _store(config: SluiceConfig) -> CreateOnlyStore:
    from spark_jobs.storage.create_only import CreateOnlyStore  # noqa: PLC0415  (pyiceberg, only where topics are listed)

    return CreateOnlyStore(config.state, resolve(config.log_properties))


def find_config_file(path: Path | None) -> Path | None:
    """Return the absolute path of the configuration file; None if there is none and none was named."""
    asked = path or (Path(os.environ[ENVIRONMENT_CONFIG]) if os.environ.get(ENVIRONMENT_CONFIG) else None)
    if path is None and os.environ.get(ENVIRONMENT_TEXT):
        if asked is None:
            return None
        raise fault("two-configurations")
    file = (asked or Path(DEFAULT_FILE_NAME)).expanduser().absolute()
    if file.is_file():
        return file
    if asked is None:
        return None
    raise fault("no-config-file", name=file)


def config_files(path: Path | None = None) -> list[Path]:
    """Return the configuration file and its team files; none if the first is unreadable."""
    file = find_config_file(path)
    main = _read(file)[0] if file else None
    return [file, *_team_files(main, file.parent)[0]] if file and main else []


def home_folder(file: Path | None) -> Path:
    """Return the absolute state folder: ``SLUICE_HOME``, else ``.sluice`` next to the file or in the cwd."""
    named = os.environ.get(ENVIRONMENT_HOME)
    if named:
        return Path(named).expanduser().absolute()
    return (file.parent if file else Path.cwd()) / ".sluice"


def _demo_text() -> str:
    file = home_folder(None) / DEMO_FILE
    return file.read_text(encoding="utf-8") if file.is_file() else DEMO_CONFIG


def _read(file: Path) -> tuple[Document | None, list[ConfigProblem]]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        return None, [mistake("file-unreadable", reason=reason).at(str(file))]
    return parse_document(str(file), text)


def _read_team(file: Path) -> tuple[Document | None, list[ConfigProblem]]:
    with suppress(OSError):  # told by whoever reads it
        if (size := file.stat().st_size) > MOST_TEAM_BYTES:
            return None, [mistake("file-too-large", size=size, most=MOST_TEAM_BYTES).at(str(file))]
    return _read(file)


def _read_teams(main: Document, folder: Path) -> tuple[list[Document], list[ConfigProblem]]:
    documents, problems = [], []
    files, missing = _team_files(main, folder)
    for file, lent in files.items():
        document, mistakes = _read_team(file)
        if document is not None:
            mistakes += map(document.locate, check_borrowed(document, lent))
        if document is not None and not mistakes:
            documents.append(document)
        problems += mistakes
    return documents, [*missing, *problems]


def _team_files(main: Document, folder: Path) -> tuple[dict[Path, Lent], list[ConfigProblem]]:
    """Return the team files in the order of ``include``; a file matched twice gets both grants."""
    found: dict[Path, Lent] = {}
    missing = []
    include = main.content.get("include") or []
    for index, entry in enumerate(include if isinstance(include, list) else [include]):
        pattern = entry.get("files") if isinstance(entry, dict) else entry
        if not isinstance(pattern, str):
            continue
        files = _match(folder, pattern)
        if not files and not _GLOB_CHARACTERS & set(pattern):
            line = main.line_of(("include", str(index)))
            missing.append(mistake("no-file", ("include",), name=pattern).at(main.file, line))
        for file in files:
            if str(file) != main.file:
                found[file] = found.get(file, Lent()) | Lent.of(entry)
    return found, missing


def _match(folder: Path, pattern: str) -> list[Path]:
    base = Path(pattern).expanduser()
    root, relative = (
        (Path(base.anchor), base.relative_to(base.anchor)) if base.is_absolute() else (folder, base)
    )
    return sorted(file for file in root.glob(str(relative)) if file.is_file())


# YAML to a ``Document``: every scalar as its text, the line of every key, no value ever in a message.


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
    """YAML loader that keeps scalars as text: YAML 1.1 would read ``0123`` as 83 and ``on`` as True."""

    yaml_implicit_resolvers = {  # noqa: RUF012  (the base class declares it so)
        first: [
            (tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in _TYPED_BY_THE_MODELS
        ]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_document(file: str, text: str) -> tuple[Document | None, list[ConfigProblem]]:
    """Parse one file, named ``file`` in messages; no document if it is not YAML or not a map."""
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
        return None, [mistake("alias-of-itself").at(file)]
    except yaml.YAMLError as error:
        return None, [_syntax_problem(file, error)]
    finally:
        loader.dispose()
    if not isinstance(content, dict):
        return None, [mistake("no-map").at(file, 1)]
    return Document(file, content, reader.lines), reader.problems


def _bomb(file: str, root: yaml.Node) -> ConfigProblem | None:
    """Return the problem of nested aliases that expand to too many values, or None."""
    sizes: dict[int, int] = {}

    def first_too_large(node: yaml.Node) -> yaml.Node | None:
        sizes[id(node)] = 1  # where it is its own part: construction tells
        found = None
        for part in parts(node):
            if id(part) not in sizes and (found := first_too_large(part)):
                return found
            sizes[id(node)] += sizes[id(part)]
        return node if sizes[id(node)] > len(sizes) + MOST_BY_ALIASES else None

    node = first_too_large(root)
    if node is None:
        return None
    bomb = mistake("too-many-aliases", values=sizes[id(node)], most=MOST_BY_ALIASES)
    return bomb.at(file, node.start_mark.line + 1)


def parts(node: yaml.Node) -> Iterable[yaml.Node]:
    """Return the child nodes of a map or list; none for a scalar."""
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


class _NodeReader:
    """Collector of the lines of all keys, and of duplicate keys."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.problems: list[ConfigProblem] = []
        self.expectations: list[yaml.Node] = []
        self._visited: set[int] = set()

    def walk(self, node: yaml.Node, path: KeyPath) -> None:
        if id(node) in self._visited:  # an alias: the line of its use stands for all below it
            return
        self._visited.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._walk_map(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[(*path, str(index))] = item.start_mark.line + 1
                self.walk(item, (*path, str(index)))

    def _walk_map(self, node: yaml.MappingNode, path: KeyPath) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            if name in seen and name != "<<":
                twice = mistake("given-twice", (*path, name), first=seen[name])
                self.problems.append(twice.at(self.file, line))
            seen[name] = line
            self.lines[(*path, name)] = line
            if name == _EXPECTATIONS:
                self.expectations.append(value)
            self.walk(value, (*path, name))


def _type_arguments(node: yaml.Node) -> None:
    """Convert unquoted numbers and booleans in the arguments of expectations."""
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
        return mistake("no-text").at(file)
    mark, reason = error.problem_mark or error.context_mark, error.problem or "is not YAML"
    found = mistake("tab") if "\\t" in reason else mistake("no-yaml", why=_QUOTED.sub("…", reason))
    return found.at(file, mark.line + 1 if mark else None)
