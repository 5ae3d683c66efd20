"""Commands that are longer than a thin function; `cli` registers each by one line."""
