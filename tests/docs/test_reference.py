"""The reference tells every command, option and setting, and no other; here they are compared with the program."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer.main

from contentcast.cli import app
from contentcast.commands.run_config import NEEDED, RunConfig
from contentcast.live.settings.config import SETTINGS
from contentcast.live.settings.limits import Limits

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def told(page: str, heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    (part,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
    return {name.split()[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}


def commands() -> dict[str, set[str]]:
    """The options and arguments of each command, as the program itself lists them."""
    group: Any = typer.main.get_command(app)
    context = group.make_context("contentcast", [], resilient_parsing=True)
    found: dict[str, set[str]] = {}
    for name in group.list_commands(context):
        found[name] = set()
        for each in group.get_command(context, name).params:
            # An argument is shown as its metavar, FOLDER, where it has one.
            shown = each.opts if each.param_type_name == "option" else [(each.metavar or each.name).strip("[]").lower()]
            found[name].update(shown)
    return {name: options - {"--help"} for name, options in found.items()}


def test_every_command_has_a_part_of_the_page() -> None:
    text = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^## (.*)$", text, re.MULTILINE)) == set(commands())


@pytest.mark.parametrize("command", commands())
def test_the_page_tells_every_option_and_no_other(command: str) -> None:
    assert told("command-line.md", command) == commands()[command]


def test_the_page_tells_every_setting_of_run() -> None:
    assert told("configuration.md", "The file of `contentcast run --config`") == {each.name for each in fields(RunConfig)} - {
        "path",
        "named",
    }


def test_the_page_tells_every_setting_and_limit_of_a_broker() -> None:
    assert told("configuration.md", "The file of `contentcast broker --config`") == set(SETTINGS) - {"insecure"}
    assert told("configuration.md", "Limits of a broker") == {each.name for each in fields(Limits)}


@pytest.mark.parametrize("setting", NEEDED)
def test_the_page_tells_which_settings_are_needed(setting: str) -> None:
    assert f"| `{setting}` | needed |" in (REFERENCE / "configuration.md").read_text(encoding="utf-8")
