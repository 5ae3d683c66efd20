"""The web page of running brokers: one look at all of them for all viewers, and why an event would arrive or not."""
