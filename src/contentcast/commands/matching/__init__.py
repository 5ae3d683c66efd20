"""`contentcast match` inside: what is given, the two ways to match it, and what is told at the end."""
