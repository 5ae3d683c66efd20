"""A new plan for an index that is in use. Rule: only this room knows of two plans."""
