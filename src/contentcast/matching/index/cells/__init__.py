"""Where entries live: groups, cells, bitmaps and the table of ids, and the ways to change them and to read them back."""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
