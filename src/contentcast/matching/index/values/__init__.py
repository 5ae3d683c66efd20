"""Values and predicates become numbers: dictionaries, order codes, text tests, and the entries of a subscription."""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
