"""Events by columns: batches, the files they come from, and Arrow columns that fit a space."""
