"""What an event meets: an encoded batch, the kernel that walks the cells, and the matches that come out."""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
