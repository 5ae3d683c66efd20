"""What commands say now and then where no terminal is (`contentcast.progress_lines`), told from what else they say."""

from __future__ import annotations

import re
from typing import Final

PROGRESS: Final = re.compile(r"contentcast: (?:.* \(\d+ s\)|compil(?:ing|ed) .*)\n")


def without_progress(said: str) -> str:
    """On a slow machine a job takes long enough to say how far it is; on a new one it compiles its kernels first."""
    return PROGRESS.sub("", said)
