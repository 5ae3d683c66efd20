"""Networks of brokers: routing, summaries, the overlay, live brokers, a LAN."""
