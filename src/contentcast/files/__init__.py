"""Files of events against a file of rules, in this process and without Spark; and tables that Spark reads and writes as well.

Rule: nothing here imports pyspark; the tables that are written are those that `contentcast.spark` writes.
"""
