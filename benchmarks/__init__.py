"""`python -m benchmarks`: contentcast against its peers, in one run and on one thread, as tables of ratios.

Not part of the tests and not part of the package; `tests/benchmarks` checks that the peers are right and the harness works.
"""
