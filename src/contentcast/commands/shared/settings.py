"""`--set NAME=VALUE`: symbols=500, zipf=1.2, hot=true."""

from __future__ import annotations

import json
from typing import Any

from contentcast.model import ContentcastError


def setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ContentcastError(f"--set takes NAME=VALUE, got {text!r}")
    try:
        return name.strip(), json.loads(value.strip().lower())
    except ValueError:
        return name.strip(), value
