"""Engines alone: matching, changes, reading texts, compiling, the search tree, covering, learning."""
