"""What the index needs of the machine: the layout of its arrays, memory, vectors of sixteen numbers, hashing and sorting.

Nothing here knows what a subscription is.
"""

import contentcast.kernels.cache  # noqa: F401  tells Numba where compiled kernels are kept
