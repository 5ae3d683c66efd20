"""Looking inside a broker: its state, metrics, log, and what it would do with an event."""
