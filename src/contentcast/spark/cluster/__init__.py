"""Spark beyond one process: a cluster to try on, the package for its workers, and what is asked of them before a job."""
