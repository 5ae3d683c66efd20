"""Which gates pay: where entries are filed, chosen from the entries' own statistics.

Rule: pure functions. A plan decides speed only; any plan gives the same matches.
"""
