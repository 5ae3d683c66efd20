"""A new plan for an index that is in use. Rule: only this room knows of two plans."""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
