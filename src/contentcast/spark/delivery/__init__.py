"""Deliveries written exactly once: as folders that appear by a rename, or through a manifest where a store has none."""
