"""The papers' evaluations and ours: a plan of rows, run through `spark.spread`, becomes a table, a figure and verdicts.

    contentcast experiment link-matching/chart2 --quick

Rule: what a paper claims is text; whether it holds is computed from the table each time.
"""
