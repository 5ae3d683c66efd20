"""Every code block of README.md and docs/ runs and prints what the page says; `pages.py` has the rules."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PageError, agrees, read_blocks, read_commands

ROOT = Path(__file__).parents[2]
PAGE_LIMIT_S = 300

# What a page may not see: the project as a new user has it is without these.
UNSEEN = shutil.ignore_patterns(".*_cache", ".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "tests")


def pages() -> list[str]:
    """The pages with at least one block to run, README first."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in paths if path.exists() and _has_blocks(path)]


def _has_blocks(path: Path) -> bool:
    try:
        return any(read_blocks(path.name, path.read_text(encoding="utf-8")))
    except PageError:
        return True  # running it will say what is wrong


def run_page(page: str, folder: Path) -> str:
    """Runs a page in `folder`; what went wrong, or nothing."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONUTF8": "1",
    }
    running = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("pages.py")), page],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = running.communicate(timeout=PAGE_LIMIT_S)
        return said if running.returncode else ""
    except subprocess.TimeoutExpired:
        return f"{page} has not ended after {PAGE_LIMIT_S} s"
    finally:
        # Whatever the page started in the background ends with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


@pytest.mark.parametrize("page", pages())
def test_page(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / "contentcast", ignore=UNSEEN)
    if failure := run_page(page, tmp_path / "contentcast"):
        pytest.fail(failure, pytrace=False)


# That the above can fail: pages with one block each, and what is said about them.

FENCE = "```"


def say(tmp_path: Path, *blocks: str) -> str:
    (tmp_path / "page.md").write_text("\n\n".join(blocks).replace("~~~", FENCE))
    return run_page("page.md", tmp_path)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("~~~python\n\n1 / 0\n~~~", 'File "page.md", line 3'),
        ("~~~python\n>>> 1 + 1\n3\n~~~", "page.md:1: another output than shown"),
        ("~~~console\n$ echo one\ntwo\n~~~", "page.md:1: `echo one` printed something else"),
        ("~~~console\n$ false\n~~~", "page.md:1: `false` ended with exit code 1 instead of 0"),
        ("~~~sh\nfalse\ntrue\n~~~", "page.md:1:"),
        ("<!-- exit code: 3 -->\n~~~console\n$ true\n~~~", "ended with exit code 0 instead of 3"),
        ("~~~json\n{,}\n~~~", "page.md:1: no json"),
        ("~~~toml\na = \n~~~", "page.md:1: no toml"),
        ("~~~\nanything\n~~~", "page.md:1: a code block names its language"),
        ("<!-- not run -->\n~~~python\n1 / 0\n~~~", "page.md:2: 'not run' needs a reason"),
        ("<!-- not run: other block -->\n\nText.\n\n~~~python\n1 / 0\n~~~", "ZeroDivisionError"),
    ],
)
def test_a_wrong_block_is_found(tmp_path: Path, block: str, complaint: str) -> None:
    assert complaint in say(tmp_path, block)


@pytest.mark.parametrize(
    "blocks",
    [
        ["~~~python\nx = 1\n~~~", "~~~python\n>>> x\n1\n>>> y = x + 1\n~~~", "~~~python\nassert y == 2\n~~~"],
        ["~~~python\nre, Page = 1, 2\ndef agrees():\n    raise ValueError\n~~~", "~~~console\n$ echo a\n...\n~~~"],
        ["~~~python\nimport asyncio\nawait asyncio.sleep(0)\nx = 1\n~~~", "~~~python\nassert x\n~~~"],
        ["~~~console\n$ X=7; cd /\n~~~", "~~~console\n$ echo $X $PWD\n7 /\n$ printf 'no line end'\nno line end\n~~~"],
        ["~~~console\n$ cat\n$ echo still here\nstill here\n~~~"],
        ["~~~console\n$ sleep 1000 &\n$ echo on\non\n~~~"],
        ["<!-- exit code: 3 -->\n\n~~~console\n$ echo wrong >&2; (exit 3)\nwrong\n~~~"],
        ["<!-- not run: divides by zero -->\n~~~python\n1 / 0\n~~~", "~~~sql\nprice <\n~~~", '~~~json\n{"a": 1}\n~~~'],
        ["~~~console\n$ echo made >file\n~~~", "~~~python\nassert open('file').read() == 'made\\n'\n~~~"],
    ],
)
def test_a_right_page_passes(tmp_path: Path, blocks: list[str]) -> None:
    assert say(tmp_path, *blocks) == ""


def test_commands_go_on_over_lines() -> None:
    commands = read_commands("$ one \\\n    more\nshown\n$ cat <<END\n> text\n> END\n\nlast\n")
    assert [(command.text, command.shown) for command in commands] == [
        ("one \\\n    more", "shown"),
        ("cat <<END\ntext\nEND", "last"),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("a\n...\nz", "a\nz\n", True),
        ("a\n...\nz", "a\nb\nc\nz\n", True),
        ("a\n...\nz", "a\nb\n", False),
        ("took ... s", "took 1.5 s  \n", True),
        ("took ... s", "took\n1.5 s\n", False),
        ("a.c", "abc\n", False),
        ("...", "", True),
    ],
)
def test_three_dots_stand_for_anything(shown: str, printed: str, agree: bool) -> None:
    assert agrees(shown, printed) is agree
