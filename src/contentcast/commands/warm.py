"""`contentcast warm`: compiles all kernels ahead, so that nothing is slow at first. For images and clusters."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from contentcast.progress_lines import say


def warm(as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False) -> None:
    """Compile everything ahead, with all cores; at once if it has been done. CONTENTCAST_CACHE says where to keep it."""
    from contentcast.kernels.cache import folder
    from contentcast.model import ContentcastError
    from contentcast.warming.compilers import CannotCompile, compile_parts, is_compiled
    from contentcast.warming.parts import EVERYTHING

    done_before = is_compiled(EVERYTHING)
    try:
        compile_parts(EVERYTHING, say)
    except CannotCompile as reason:
        raise ContentcastError(f"warm: {reason}") from None
    if as_json:
        typer.echo(json.dumps({"folder": str(folder()), "compiled": not done_before}))
    else:
        typer.echo(f"all kernels {'were' if done_before else 'are'} compiled, in {folder()}")
