"""What the numbers were measured on, and how to keep everybody to one thread."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

PACKAGES: Final = (
    "contentcast",
    "numpy",
    "pyarrow",
    "numba",
    "sqlglot",
    "polars",
    "duckdb",
    "pyroaring",
    "hyperscan",
    "common-expression-language",
    "rule-engine",
)


def keep_to_one_thread() -> None:
    """Before any of the libraries is imported: they read it when they start. (DuckDB is told by each connection.)"""
    for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"
    import pyarrow as pa

    pa.set_cpu_count(1)


def wait_for_kernels() -> None:
    """Indexes use their kernels from the beginning: what is measured is not how they answer while these are compiled."""
    from contentcast.warming.background import kernels

    kernels.wait()


def facts() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
