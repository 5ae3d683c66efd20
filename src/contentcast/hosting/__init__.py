"""What hosts share: performing effects, timers, a network without time, costs, and the ledger of what was sent."""
