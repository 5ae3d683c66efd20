"""`contentcast simulate` inside: the sweep over rates, and what is written to files."""
