"""Finds names in back-ticks that mean nothing: `python tests/docs/names.py` lists them with file and line.

Read are the docstrings of src/contentcast and the text of README.md, CHANGELOG.md and docs/, code blocks left out. A span in
back-ticks is a name of ours, and must exist, if it has one of these forms:

| form | it must be |
| --- | --- |
| a path that ends in .py or .md: `wire/form.py` | a file: of the project, beside the one that names it, or one that we write |
| words with slashes, the first a folder of ours: `routing/contract` | a folder or a module, and a name in it |
| words with dots, the first a module or class of ours: `Setup.forest` | a name that the module or class has |
| on a page, CamelCase or a call: `EventBatch`, `add_many(ids, texts)` | a class or function of ours |
| on a page, any other word: `on_error` | a word that some code of ours uses: a name, an argument, an option, a column |
| in a docstring, any word: `blocks` | a word of the same file; or a module, class, function or text of ours |

What a page's own code blocks say is known on that page; `WORLD` has the names that others gave. Everything else (numbers,
options with dashes, shell lines, SQL, words in capitals) is not a name of ours by its form.
Rule: the sources are parsed, never imported, so that this file needs nothing of contentcast and takes a second.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from markdown_it import MarkdownIt

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "src/contentcast"

WORLD: Final = frozenset(
    {
        *("coalesce", "contains", "endswith", "lower", "startswith", "upper", "StartsWith"),  # SQL
        *("Decimal", "Infinity", "decimal", "StructType"),  # types
        *("mapInArrow", "readStream", "writeStream", "yarn", "PYSPARK_SUBMIT_ARGS"),  # Spark
        *("spark.read.format", "spark.sql", "spark.sparkContext.setLogLevel"),  # methods of a Spark session, not of our package
        "spark.executor.pyspark.memory",  # a setting of Spark
        "Price",  # the language page shows that case counts
    }
)
"""Names that others gave."""

SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
WORD: Final = re.compile(r"[A-Za-z_]\w*")
DOTTED: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
SLASHED: Final = re.compile(r"[A-Za-z_]\w*(/\w[\w-]*)+(\.[A-Za-z_]\w*)*/?")
FILE: Final = re.compile(r"[\w./-]+\.(py|md)")
CALL: Final = re.compile(r"([A-Za-z_][\w.]*)\(.*\).*")
SQL_WORD: Final = re.compile(r"[A-Z]+")
CAMEL: Final = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]*)*|[A-Z]+[a-z][A-Za-z0-9]*")


class Span(NamedTuple):
    text: str
    file: str
    line: int
    in_docstring: bool


@dataclass
class Scope:
    """The names that a module or a class defines or imports."""

    names: set[str] = field(default_factory=set)
    inner: dict[str, Scope] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)


@dataclass
class Names:
    """Everything that can be named: files, modules, what modules and classes define, and the words that sources use."""

    root: Path
    modules: dict[str, Scope] = field(default_factory=dict)
    """By path below src/contentcast without .py, such as `model/space`; a folder is its `__init__`."""
    classes: dict[str, list[Scope]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    """Functions, classes and constants at any depth."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """By file of src: all words that its code uses as a name, an argument, an attribute or a whole string."""
    everywhere: set[str] = field(default_factory=set)
    """The same of all sources, those of benchmarks and set-up too; tests have wrong names on purpose."""
    modules_called: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    """Whole texts of src without a blank: names of scenarios and protocols, options, columns, files that are written."""

    @classmethod
    def of(cls, root: Path) -> Names:
        found = cls(root)
        for path in sorted((root / PACKAGE).rglob("*.py")):
            found._read(path)
        for folder in ("benchmarks", "requirements"):
            for path in sorted((root / folder).rglob("*.py")):
                found.everywhere |= _words(ast.parse(path.read_text(encoding="utf-8")))
        found.modules_called = {Path(each).name for each in found.modules}
        return found

    def _read(self, path: Path) -> None:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = str(path.relative_to(self.root / PACKAGE).with_suffix("")).removesuffix("__init__").rstrip("/") or "."
        scope = self.modules.setdefault(name, Scope())
        self._fill(scope, tree.body)
        words = _words(tree)
        self.used[str(path.relative_to(self.root))] = words
        self.texts |= set(_texts(tree))
        self.everywhere |= words
        if name != ".":
            above = str(Path(name).parent)
            self.modules.setdefault(above, Scope()).inner[Path(name).name] = scope
            self.modules[above].names.add(Path(name).name)

    def _fill(self, scope: Scope, body: Iterable[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.ClassDef():
                    inner = scope.inner.setdefault(
                        node.name, Scope(bases=[ast.unparse(each).split("[")[0] for each in node.bases])
                    )
                    self._fill(inner, node.body)
                    # What methods put into self is a part of the class as well.
                    inner.names |= {
                        each.attr
                        for each in ast.walk(node)
                        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self"
                    }
                    self.classes.setdefault(node.name, []).append(inner)
                    self._define(scope, node.name)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._define(scope, node.name)
                case ast.Assign(targets=targets):
                    for target in targets:
                        for each in ast.walk(target):
                            if isinstance(each, ast.Name):
                                self._define(scope, each.id)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self._define(scope, name)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    scope.names |= {each.asname or each.name.split(".")[0] for each in names}
                case ast.If() | ast.Try():
                    self._fill(scope, [*node.body, *node.orelse])
                case _:
                    pass

    def _define(self, scope: Scope, name: str) -> None:
        scope.names.add(name)
        self.defined.add(name)

    def has_file(self, text: str, beside: str) -> bool:
        places = (self.root, self.root / PACKAGE, (self.root / beside).parent)
        if any((place / text).exists() for place in places):
            return True
        return text in self.texts or any(f"/{name}.py".endswith(f"/{text}") for name in self.modules)

    def has_dotted(self, parts: list[str], beside: str) -> bool | None:
        """Whether the name exists; None if its first part is nothing of ours."""
        first, *rest = parts
        starts = [*self._modules_called(first, beside), *self.classes.get(first, [])]
        if not starts:
            return None
        return any(self._reaches(start, rest) for start in starts)

    def _modules_called(self, name: str, beside: str) -> list[Scope]:
        if name in ("contentcast", "cc"):
            return [self.modules["."]]
        folder = Path(beside).parent
        near = []
        if folder.is_relative_to(PACKAGE):
            here = folder.relative_to(PACKAGE)
            near = [str(place / name) for place in (here, *here.parents)]
        return [self.modules[each] for each in dict.fromkeys([*near, name]) if each in self.modules]

    def _reaches(self, scope: Scope, rest: list[str]) -> bool:
        if not rest:
            return True
        first, *more = rest
        if first in scope.inner:
            return self._reaches(scope.inner[first], more)
        if first in scope.names:
            # Imported or assigned: a class of ours by that name is looked into, anything else is not ours to judge.
            inside = self.classes.get(first, [])
            return not more or not inside or any(self._reaches(each, more) for each in inside)
        for base in scope.bases:
            name = base.split(".")[-1]
            ours = self.classes.get(name)
            if ours is not None and any(self._reaches(each, rest) for each in ours):
                return True
            if ours is None and name not in ("Protocol", "Generic", "NamedTuple") and not hasattr(builtins, name):
                return True  # of the world: it may have the name
            if hasattr(getattr(builtins, name, None), first):
                return True
        return False

    def has_slashed(self, text: str) -> bool | None:
        path, *rest = text.rstrip("/").split(".")
        first = path.split("/")[0]
        if path in self.modules:
            return self._reaches(self.modules[path], rest)
        if (self.root / path).is_dir() or (self.root / PACKAGE / path).is_dir():
            return not rest
        ours = (self.root / PACKAGE / first).is_dir() or (self.root / first).is_dir()
        return (self.root / path).exists() if ours else None


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts of the code that have no blank, docstrings left out."""
    documents = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documents
            and " " not in node.value
        ):
            yield node.value


def _words(tree: ast.AST) -> set[str]:
    """Every word that the code uses: names, arguments, attributes, and the words of texts without a blank."""
    found = {word for text in _texts(tree) for word in WORD.findall(text)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found |= {*name.split("."), other or name}
            case _:
                pass
    return found


def spans_of_source(text: str, file: str) -> Iterator[Span]:
    """The spans of the docstrings: of the module, of classes and functions, and below attributes."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))) if "`" in said:
                for number, line in enumerate(said.split("\n")):
                    for span in SPAN.finditer(line):
                        yield Span(span[1], file, node.lineno + number, True)
            case _:
                pass


def spans_of_page(text: str, file: str) -> Iterator[Span]:
    for token in MarkdownIt().enable("table").parse(text):
        if token.type == "inline" and token.map is not None:
            for child in token.children or []:
                if child.type == "code_inline":
                    yield Span(child.content, file, token.map[0] + 1, False)


def blocks_of_page(text: str) -> str:
    return "\n".join(token.content for token in MarkdownIt().parse(text) if token.type == "fence")


def is_wrong(span: Span, names: Names, said: frozenset[str] | set[str] = frozenset()) -> bool:
    """Whether the span has the form of a name of ours and there is none; `said` are the words of the page's own blocks."""
    text = span.text.strip()
    if text in WORLD:
        return False
    if FILE.fullmatch(text):
        return not names.has_file(text, span.file)
    if SLASHED.fullmatch(text):
        return names.has_slashed(text) is False
    called = CALL.fullmatch(text)
    name = called[1] if called else text
    if name.split(".")[0] in said or name in WORLD:
        return False
    if DOTTED.fullmatch(name):
        return names.has_dotted(name.split("."), span.file) is False
    if not WORD.fullmatch(name) or SQL_WORD.fullmatch(name) or keyword.iskeyword(name) or hasattr(builtins, name):
        return False
    if name in names.defined or name in names.modules_called or name in names.texts:
        return False
    if span.in_docstring:
        return name not in names.used[span.file]
    if called or CAMEL.fullmatch(name):
        return True
    return name not in names.everywhere


def find_wrong(names: Names) -> Iterator[Span]:
    root = names.root
    for path in sorted((root / PACKAGE).rglob("*.py")):
        file = str(path.relative_to(root))
        yield from (each for each in spans_of_source(path.read_text(encoding="utf-8"), file) if is_wrong(each, names))
    for path in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        said = set(WORD.findall(blocks_of_page(text)))
        yield from (each for each in spans_of_page(text, str(path.relative_to(root))) if is_wrong(each, names, said))


def main() -> int:
    wrong = list(find_wrong(Names.of(ROOT)))
    for each in wrong:
        print(f"{each.file}:{each.line}: `{each.text}` is no name of ours")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
