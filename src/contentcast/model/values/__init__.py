"""Values and sets of them: kinds, order-preserving keys, ranges, string patterns."""
