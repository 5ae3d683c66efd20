"""`contentcast space`: a space by looking at files of events, as a TOML file to edit.

Rule: what was mixed or left out is said in the file, beside its attribute, and counted on stderr.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from contentcast.commands.shared.option_words import as_options
from contentcast.commands.shared.outputs import check_apart
from contentcast.commands.shared.progress import progress
from contentcast.model import ContentcastError, infer_space
from contentcast.model.events.event_files import STDIN, expand


def space(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES", help="JSON lines, CSV, Parquet or a JSON Schema; patterns, or - for stdin.", show_default=False
        ),
    ],
    name: Annotated[str, typer.Option(help="The name of the space.", show_default="the first file's")] = "",
    out: Annotated[Path | None, typer.Option(help="The .toml or .json file to write.", show_default="stdout")] = None,
    sample: Annotated[int, typer.Option(min=1, help="How many events to look at, spread over the files.")] = 10_000,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Look at events and write the space that they are of: kinds, nested names, and what was mixed or left out."""
    if out is not None and out.exists() and not force:
        raise ContentcastError(f"{out} is already there; choose another file, or replace it with --force")
    if out is not None and out.suffix.lower() not in (".toml", ".json"):
        raise ContentcastError(f"{out}: a space is written as .toml or .json")
    chosen = expand(files)
    if out is not None:
        check_apart(out, [each for each in chosen if each != STDIN], "space")
    with progress("looking", len(chosen)) as advance:
        found = infer_space(chosen, name or None, most_events=sample, advance=advance)
    left_out = [each for each in found.notes if each not in found.space]
    if out is None:
        told: dict[str, Any] = {"space": found.space.to_dict(), "notes": found.notes, "looked at": found.looked_at}
        typer.echo(json.dumps(told, indent=2) if as_json else found.to_toml(), nl=as_json)
    else:
        if out.suffix.lower() == ".json":
            found.space.save(out)
        else:
            out.write_text(found.to_toml(), encoding="utf-8")
        told = {"space": str(out), "attributes": len(found.space), "notes": found.notes}
        typer.echo(json.dumps(told) if as_json else f"{out}: {len(found.space)} attributes, {len(left_out)} fields left out")
    for each in [key for key, note in found.notes.items() if note.startswith("mixed")][:5]:
        typer.echo(f"contentcast: {each}: {as_options(found.notes[each])}", err=True)
    for each in left_out[:5]:
        typer.echo(f"contentcast: left out {each}: {as_options(found.notes[each])}", err=True)
    if len(left_out) > 5:
        typer.echo(f"contentcast: left out {len(left_out) - 5} more; the file says why", err=True)
