"""Where product code asks which layout a table or which kind of work a batch is: counted by AST.

Kinds are the classes ``Layout``, ``Work`` and ``BatchKind``, their members, and classes that derive from
them; their words are ``WORDS`` and whatever members the code adds. A *question* is, each counted where it
stands, once a node and not once a line:

``trait``
    a read (no declaration, no parameter, no keyword) of a name or attribute that is ``is_<word>`` or a bool
    property or field of a kind, or a text that is its name, for ``getattr``;
``comparison``
    a ``==``, ``!=``, ``is``, ``is not``, ``in`` or ``not in`` with a member on one side, alone or within a
    literal collection, also by a constant of a module that names them; or with a member's value as a text
    where the other side is called ``layout``, ``kind`` or ``work``;
``case``
    a ``case`` whose pattern names a member, a value (of a subject called so) or a class of a kind;
``table``
    each key of a ``{...: ...}`` that is a member: a ``match`` in another dress;
``class``
    an ``isinstance``, ``issubclass`` or ``type(...) is`` with a class of a kind: one that derives from
    ``Layout`` or ``Work``, or whose name has a word of them (``MirrorAuditResult``, ``ReplayCommit``);
``capability``
    a read of a public function or property ``-> bool`` that asks one of these itself, if more than one room
    reads it: a question under another name is still one.

What makes a member (``kind=BatchKind.REPLAY``, a default, a type) asks nothing. A member is one of an enum,
or a constant that is an instance of a kind. All ``isinstance`` of the product are told beside; the others are
no questions of kind. The class ``Work`` of the room ``query`` is a query's and no kind.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

KINDS = frozenset({"Layout", "Work", "BatchKind"})
_NO_KINDS_IN = "spark_jobs/query"
LAYOUTS = frozenset({"flat", "archive", "changes", "mirror"})
WORKS = frozenset({"drain", "replay", "redrive", "rebuild"})
ACTS = frozenset(
    {"skip", "discard", "pause", "resume", "rollback", "accept", "retype", "repartition", "cancel"}
)
WORDS = LAYOUTS | WORKS | ACTS | {"reanchor"}
SUBJECTS = frozenset({"layout", "kind", "work"})
NAMES = ("is_mirror", "is_archive", "BatchKind.")
SORTS = ("trait", "comparison", "case", "table", "class", "capability")
_CAMEL = re.compile(r"[A-Z][a-z0-9]*")


@dataclass(frozen=True, slots=True)
class Question:
    """One place that asks: how, by which name, and where."""

    sort: str
    name: str
    file: str
    line: int


@dataclass(slots=True)
class _Module:
    file: str
    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)

    def read(self) -> None:
        """Fill in what stands at its top: constants, and what comes from other modules."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._name(node.targets[0], node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                self._name(node.target, node.value)
        for each in ast.walk(self.tree):
            if isinstance(each, ast.ImportFrom) and each.module:
                for alias in each.names:
                    self.imported[alias.asname or alias.name] = (each.module, alias.name)

    def _name(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.constants[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, its_value in zip(target.elts, value.elts, strict=False):
                self._name(each, its_value)


def room_of(file: str) -> str:
    """Return a file's room: the folder in ``spark_jobs``, elsewhere the top folder."""
    parts = PurePath(file).parts
    return "/".join(parts[:2]) if parts[0] == "spark_jobs" and len(parts) > 2 else parts[0]


def questions(tree: Path, files: Iterable[str]) -> list[Question]:
    """Return all questions of the files, which are named from ``tree``."""
    modules = [_Module(file, ast.parse((tree / file).read_text())) for file in files]
    for module in modules:
        module.read()
    return _House(modules).questions()


def as_text(tree: Path, files: Iterable[str]) -> dict[str, list[str]]:
    """Return by each of the ``NAMES`` the file of every line that has it, declarations and all."""
    lines = [(file, line) for file in files for line in (tree / file).read_text().splitlines()]
    return {name: [f for f, line in lines if re.search(rf"\b{re.escape(name)}", line)] for name in NAMES}


class _House:
    """All modules, with what is known of kinds from all of them."""

    def __init__(self, modules: Iterable[_Module]) -> None:
        self.modules = list(modules)
        self.by_name = {_dotted(module.file): module for module in self.modules}
        self.words = set(WORDS)
        self.classes = set(KINDS)
        self.traits: set[str] = set()
        self._find_kinds()
        self.traits |= {f"is_{word}" for word in self.words}

    def questions(self) -> list[Question]:
        """Return what every module asks, capabilities last."""
        found = [question for module in self.modules for question in _Asked(self, module).questions]
        lines = defaultdict(set)
        for question in found:
            lines[question.file].add(question.line)
        capabilities = {name for module in self.modules for name in _asking(module, lines[module.file])}
        reads = [
            Question("capability", _read_name(node), module.file, node.lineno)
            for module in self.modules
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Name | ast.Attribute) and _read_name(node) in capabilities - self.traits
        ]
        rooms = defaultdict(set)
        for read in reads:
            rooms[read.name].add(room_of(read.file))
        return found + [read for read in reads if len(rooms[read.name]) > 1]

    def _find_kinds(self) -> None:
        classes = [
            node
            for module in self.modules
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ClassDef)
            and not (node.name in KINDS and room_of(module.file) == _NO_KINDS_IN)
        ]
        grows = True
        while grows:
            bases = {node.name for node in classes if {_last(base) for base in node.bases} & self.classes}
            grows = not bases <= self.classes
            self.classes |= bases
        self.made = frozenset(self.classes)
        for node in classes:
            if node.name in self.classes:
                self._learn(node)
        self.classes |= {
            node.name for node in classes if self.words & {word.lower() for word in _CAMEL.findall(node.name)}
        }

    def _learn(self, kind: ast.ClassDef) -> None:
        for node in kind.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                self.words |= {str(node.value.value)} if str(node.value.value).isidentifier() else set()
            elif isinstance(node, ast.FunctionDef) and _last(node.returns) == "bool":
                self.traits.add(node.name)
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) in {
                "bool",
                "ClassVar[bool]",
            }:
                self.traits.add(_last(node.target))

    def members(self, module: _Module, node: ast.expr, depth: int = 9) -> list[str]:
        """Return the members that an expression names, through constants and collections."""
        if named := self._member(module, node):
            return [named]
        there, parts = self._within(module, node)
        return [name for part in parts if depth for name in self.members(there, part, depth - 1)]

    def texts(self, module: _Module, node: ast.expr, depth: int = 9) -> list[str]:
        """Return the members' values that an expression names as texts."""
        if isinstance(node, ast.Constant):
            return [str(node.value)] if str(node.value).lower() in self.words else []
        there, parts = self._within(module, node)
        return [name for part in parts if depth for name in self.texts(there, part, depth - 1)]

    def _member(self, module: _Module, node: ast.expr) -> str:
        """Return ``Layout.MIRROR``, ``Layout("mirror")`` or the constant that was made an instance."""
        if isinstance(node, ast.Attribute) and _last(node.value) in KINDS and node.attr.lower() in self.words:
            return f"{_last(node.value)}.{node.attr}"
        if (
            isinstance(node, ast.Call)
            and _last(node.func) in KINDS
            and isinstance(node.args[0], ast.Constant)
        ):
            return ast.unparse(node)
        _, (value, *_) = self._constant(module, node)
        return _last(node) if isinstance(value, ast.Call) and _last(value.func) in self.made else ""

    def _within(self, module: _Module, node: ast.expr) -> tuple[_Module, list[ast.expr]]:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return module, node.elts
        if isinstance(node, ast.BinOp):
            return module, [node.left, node.right]
        if isinstance(node, ast.Call) and _last(node.func) in {"frozenset", "set", "tuple"}:
            return module, node.args
        if isinstance(node, ast.Attribute) and node.attr in {"value", "name"}:
            return module, [node.value]
        there, values = self._constant(module, node)
        return there, [value for value in values if value is not None]

    def _constant(self, module: _Module, node: ast.expr) -> tuple[_Module, list[ast.expr | None]]:
        """Return what a name, or one of an imported module, stands for, and the module that says it."""
        name = _last(node)
        source, there = module.imported.get(
            _last(node.value) if isinstance(node, ast.Attribute) else name, ("", "")
        )
        if isinstance(node, ast.Name) and name in module.constants:
            return module, [module.constants[name]]
        source, name = (f"{source}.{there}", name) if isinstance(node, ast.Attribute) else (source, there)
        other = self.by_name.get(source, module)
        return other, [other.constants.get(name) if source else None]


class _Asked(ast.NodeVisitor):
    """The questions of one module, but for capabilities."""

    def __init__(self, house: _House, module: _Module) -> None:
        self.house, self.module = house, module
        self.questions: list[Question] = []
        self._docs = {
            id(node.body[0].value)
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        self.visit(module.tree)

    def _ask(self, sort: str, name: str, node: ast.AST) -> None:
        self.questions.append(Question(sort, name, self.module.file, node.lineno))  # type: ignore[attr-defined]

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Ask by a trait."""
        if _read_name(node) in self.house.traits:
            self._ask("trait", node.attr, node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Ask by a trait that was handed on."""
        if _read_name(node) in self.house.traits:
            self._ask("trait", node.id, node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Ask by a trait's name."""
        if isinstance(node.value, str) and node.value in self.house.traits and id(node) not in self._docs:
            self._ask("trait", repr(node.value), node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Ask by comparing."""
        sides = [node.left, *node.comparators]
        members = [name for side in sides for name in self.house.members(self.module, side)]
        texts = [name for side in sides for name in self.house.texts(self.module, side)]
        classes = [_last(side) for side in sides if _last(side) in self.house.classes]
        if members:
            self._ask("comparison", _listed(members), node)
        elif texts and any(map(_is_subject, sides)):
            self._ask("comparison", _listed(list(map(repr, texts))), node)
        elif classes and any(isinstance(side, ast.Call) and _last(side.func) == "type" for side in sides):
            self._ask("class", classes[0], node)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        """Ask by cases."""
        for case in node.cases:
            names = []
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchValue):
                    names += self.house.members(self.module, part.value)
                    names += self.house.texts(self.module, part.value) if _is_subject(node.subject) else []
                elif isinstance(part, ast.MatchClass) and _last(part.cls) in self.house.classes:
                    names.append(_last(part.cls))
            if names:
                self._ask("case", _listed(names), case.pattern)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Ask by a table."""
        for key in filter(None, node.keys):
            for name in self.house.members(self.module, key):
                self._ask("table", name, key)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Ask by a class."""
        if _last(node.func) in {"isinstance", "issubclass"} and len(node.args) == 2:
            names = {
                _last(part) for part in ast.walk(node.args[1]) if isinstance(part, ast.Name | ast.Attribute)
            }
            if asked := sorted(names & self.house.classes):
                self._ask("class", " ".join(asked), node)
        self.generic_visit(node)


def _asking(module: _Module, lines: set[int]) -> Iterator[str]:
    """Names of the module's functions ``-> bool`` with a question in them."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef) or _last(node.returns) != "bool" or node.name[0] == "_":
            continue
        if lines & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)):
            yield node.name


def _read_name(node: ast.AST) -> str:
    if not isinstance(getattr(node, "ctx", None), ast.Load):
        return ""
    return _last(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _is_subject(node: ast.expr) -> bool:
    """True of what is called a layout, a kind or a work."""
    if isinstance(node, ast.Attribute) and node.attr in {"value", "name"}:
        return _is_subject(node.value)
    name = _last(node)
    if isinstance(node, ast.Subscript):
        name = str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""
    if isinstance(node, ast.Call) and _last(node.func) == "get" and node.args:
        name = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ""
    return bool(SUBJECTS & set(name.lower().split("_")))


def _last(node: ast.AST | None) -> str:
    """Return the last name of ``a.b.C``; empty of everything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _listed(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if names[1:] else names[0]


def _dotted(file: str) -> str:
    path = PurePath(file).with_suffix("")
    return ".".join(path.parts[:-1] if path.name == "__init__" else path.parts)


def by_name(found: Iterable[Question]) -> Mapping[str, list[Question]]:
    """Return the questions by name, most asked first."""
    names = defaultdict(list)
    for question in found:
        names[question.name].append(question)
    return dict(sorted(names.items(), key=lambda each: (-len(each[1]), each[0])))


def isinstance_calls(tree: Path, files: Iterable[str]) -> Counter[str]:
    """Return how many ``isinstance`` each file has, of whatever classes."""
    texts = {file: (tree / file).read_text() for file in files}
    return Counter({file: len(re.findall(r"\bisinstance\(", text)) for file, text in texts.items()})
