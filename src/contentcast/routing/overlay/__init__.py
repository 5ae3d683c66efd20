"""Content-based publish/subscribe on a structured overlay, the fourth paper."""
