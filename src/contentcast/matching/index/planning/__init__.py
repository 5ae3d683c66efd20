"""Which gates pay: where entries are filed, chosen from the entries' own statistics.

Rule: pure functions. A plan decides speed only; any plan gives the same matches.
"""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
