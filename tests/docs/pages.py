"""Runs the code blocks of one Markdown page, in order: `python tests/docs/pages.py README.md`.

| block | what happens |
| --- | --- |
| `python` | executed; the blocks of a page share their names; `await` works at the top level |
| `python` with `>>> ` | executed in the same names; the output is compared |
| `console`, `sh` | lines after `$ ` run in one bash for the whole page; the output, where some is shown, is compared |
| the same without `$ ` | run as a script of its own |
| `json`, `toml` | must parse |
| any other | only looked at; a block must name its language |
| `python` below `<!-- file: NAME -->` | written to that file, for the blocks after it to import |

`...` in a shown output stands for anything on its line, and alone on a line for any lines. Above a block,
`<!-- not run: REASON -->` exempts it, and `<!-- exit code: 2 -->` says that its last command ends so.
Rule: this file imports nothing of contentcast and changes nothing but the folder it runs in.
"""

import ast
import asyncio
import difflib
import doctest
import inspect
import json
import re
import shlex
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from markdown_it import MarkdownIt

PYTHON = {"python", "py", "pycon"}
SHELL = {"console", "sh", "bash", "shell"}
PARSED = {"json": json.loads, "toml": tomllib.loads}

NOT_RUN = re.compile(r"<!--\s*not run\b:?\s*(?P<reason>.*?)\s*-->", re.DOTALL)
FILE = re.compile(r"<!--\s*file:\s*(?P<name>[\w.]+)\s*-->")
EXIT_CODE = re.compile(r"<!--\s*exit code:\s*(?P<code>\d+)\s*-->")


class PageError(Exception):
    """A block that does not do what the page says; the message names page and line."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str
    exit_code: int = 0
    file: str = ""

    def fail(self, why: str) -> PageError:
        return PageError(f"{self.page}:{self.line}: {why}")


@dataclass(frozen=True)
class Command:
    text: str
    shown: str
    """The output on the page, empty if it shows none."""


def read_blocks(page: str, text: str) -> Iterator[Block]:
    """The blocks that are to be run or parsed; raises for one that cannot be judged."""
    above = ""
    for token in MarkdownIt().parse(text):
        if token.type == "html_block":
            above = token.content
        elif token.type == "fence":
            assert token.map is not None
            code = EXIT_CODE.search(above)
            language = (token.info.split() or [""])[0]
            file = FILE.search(above)
            written = file["name"] if file else ""
            block = Block(page, token.map[0] + 1, language, token.content, int(code["code"]) if code else 0, written)
            exempted, above = NOT_RUN.search(above), ""
            if not language:
                raise block.fail("a code block names its language; ```text if it has none")
            if exempted and not exempted["reason"]:
                raise block.fail("'not run' needs a reason: <!-- not run: REASON -->")
            if not exempted and language in PYTHON | SHELL | set(PARSED):
                yield block
        else:
            above = ""


def read_commands(text: str) -> list[Command]:
    """The commands of a block: each starts at `$ ` and goes on after a final backslash or on lines with `> `.

    A block without any `$ ` is one script, which stops at the first error and shows no output.
    """
    if not any(line.startswith("$ ") for line in text.splitlines()):
        return [Command(f"(set -euo pipefail\n{text}\n)", "")]
    commands: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif commands and not commands[-1][1] and line.startswith("> "):
            commands[-1][0].append(line[2:])
        elif commands and not commands[-1][1] and commands[-1][0][-1].endswith("\\"):
            commands[-1][0].append(line)
        elif commands:
            commands[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"output before the first command: {line!r}")
    return [Command("\n".join(typed), "\n".join(shown).strip("\n")) for typed, shown in commands]


def agrees(shown: str, printed: str) -> bool:
    """Whether the output on the page is the one that was printed, up to `...` and blanks at line ends."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "..." else "[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n"
        for line in shown.strip("\n").splitlines()
    )
    return re.fullmatch(pattern, printed.strip("\n") + "\n") is not None


class Shell:
    """One bash for a page, so that `cd`, variables and background programs last from block to block."""

    def __init__(self) -> None:
        self._end = uuid.uuid4().hex
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def run(self, command: str) -> tuple[str, int]:
        """What the command printed on both outputs, and its exit code."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        # Standard input is this very pipe: a command that reads would eat the next one.
        self._bash.stdin.write(f"eval {shlex.quote(command)} </dev/null\nprintf '\\n{self._end} %d\\n' $?\n")
        self._bash.stdin.flush()
        printed: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(self._end):
                # The line break before the mark is ours.
                return "".join(printed).removesuffix("\n"), int(line.split()[1])
            printed.append(line)
        return "".join(printed), self._bash.wait()

    def close(self) -> None:
        self._bash.kill()
        self._bash.wait()


class Page:
    """Runs blocks one after the other with what they share: the names, the event loop and the shell."""

    def __init__(self) -> None:
        # The names are those of a module that dataclasses and pickle find, and not those of this file.
        sys.modules["__main__"] = ModuleType("__main__")
        self._names = vars(sys.modules["__main__"])
        self._loop = asyncio.Runner()
        self._shell: Shell | None = None

    def run(self, block: Block) -> None:
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
            sys.path[:0] = [] if "" in sys.path else [""]
        elif block.language in PARSED:
            try:
                PARSED[block.language](block.text)
            except ValueError as error:
                raise block.fail(f"no {block.language}: {error}") from None
        elif block.language in SHELL:
            self._run_commands(block)
        elif block.text.lstrip().startswith(">>> "):
            self._run_session(block)
        else:
            self._run_program(block)

    def close(self) -> None:
        self._loop.close()
        if self._shell is not None:
            self._shell.close()

    def _run_program(self, block: Block) -> None:
        # Empty lines in front: a traceback then names the line of the page.
        source = "\n" * block.line + block.text
        code = compile(source, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        # One loop for the page, and the block inside it: what one block opens the next one may use.
        waiting: Any = eval(code, self._names)
        if inspect.iscoroutine(waiting):
            self._loop.run(waiting)

    def _run_session(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.text, self._names, block.page, block.page, block.line)
        report: list[str] = []
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        if runner.run(test, out=report.append, clear_globs=False).failed:
            raise block.fail("another output than shown\n" + "".join(report))
        self._names.update(test.globs)

    def _run_commands(self, block: Block) -> None:
        self._shell = self._shell or Shell()
        try:
            commands = read_commands(block.text)
        except ValueError as error:
            raise block.fail(str(error)) from None
        for command in commands:
            printed, code = self._shell.run(command.text)
            expected = block.exit_code if command is commands[-1] else 0
            if code != expected:
                raise block.fail(f"`{command.text}` ended with exit code {code} instead of {expected}\n{printed}")
            if command.shown and not agrees(command.shown, printed):
                lines = difflib.unified_diff(
                    command.shown.splitlines(), printed.splitlines(), "the page", "the run", lineterm=""
                )
                raise block.fail(f"`{command.text}` printed something else\n" + "\n".join(lines))


def main(path: str) -> int:
    page = Page()
    try:
        for block in read_blocks(path, Path(path).read_text(encoding="utf-8")):
            page.run(block)
    except PageError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
