"""What `pip install contentcast` leaves out: which extra brings the package that a command lacks.

Rule: a command without its extra ends with one line that says what to install, and never with a traceback.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Final

EXTRAS: Final = {
    "pyspark": "spark",
    "pandas": "spark",
    "aiohttp": "live",
    "prometheus_client": "live",
    "jwt": "live",
    "matplotlib": "experiments",
}
"""The extra of pyproject.toml for each package that something imports when it is needed."""


def how_to_install(error: ImportError) -> str | None:
    """One line for the user; None if it is none of these packages that cannot be imported."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return None
    install = f"pip install 'contentcast[{EXTRAS[package]}]'"
    if _is_there(package):  # an old version
        return f"this needs another {package} than the one that is installed ({error}): {install}"
    return f"this needs {package}, which is not installed: {install}"


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def need(*packages: str) -> None:
    """Raises the ImportError of the first that lacks, before a command begins what takes long."""
    for package in packages:
        import_module(package)
