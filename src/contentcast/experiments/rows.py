"""Tables of results, group by group: means with their error, and choosing rows by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]

STUDENT_95: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Half a 95 % interval in standard errors, by degrees of freedom from 1; then nearly 2."""


def mean_and_error(values: Sequence[float] | Floats) -> tuple[float, float]:
    """The mean and half its 95 % confidence interval (Student); no error of one value: nan."""
    array = np.asarray(values, float)
    if len(array) < 2:
        return float(array.mean()), float("nan")
    freedom = len(array) - 1
    factor = STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else 2.0
    return float(array.mean()), float(factor * array.std(ddof=1) / np.sqrt(len(array)))


def where(table: pa.Table, **values: Any) -> pa.Table:
    """The rows that have these values."""
    kept = np.ones(table.num_rows, bool)
    for name, value in values.items():
        kept &= np.array([each == value for each in table[name].to_pylist()], bool)
    return table.filter(pa.array(kept))


def groups(table: pa.Table, *names: str) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows with the same values of these columns together, in the order in which they first appear."""
    keys = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    for key in dict.fromkeys(keys):
        yield key, table.filter(pa.array([each == key for each in keys]))


def floats(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(zero_copy_only=False), float)


def with_error(mean: float, error: float, digits: int = 0) -> str:
    return f"{mean:,.{digits}f}" if np.isnan(error) else f"{mean:,.{digits}f} ± {error:,.{digits}f}"
