"""The job as one page to look at: `write_report(facts, "out/report.html")`.

The page needs nothing but itself: style, script, drawings and numbers are in the file, and it asks no network for anything. It
reads well without its script too, which only switches protocols, sorts tables and changes the theme.
Rule: every text that comes from data is escaped; every number that is shown is in the tables of the job's folder.
"""

from contentcast.pipeline.report.page import write_report

__all__ = ["write_report"]
