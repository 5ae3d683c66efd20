"""Spaces by looking: from a sample of events or somebody else's schema to a space, and what was mixed or left out and why."""

from contentcast.model.inference.infer import Inferred, infer_space

__all__ = ["Inferred", "infer_space"]
