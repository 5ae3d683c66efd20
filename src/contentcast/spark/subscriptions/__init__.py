"""The table of subscriptions on Spark: read, checked, split in shards, built as index files for workers."""
