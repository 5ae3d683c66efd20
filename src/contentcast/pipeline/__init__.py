"""The main job on Spark: feeds, the steps of the job, examples for people, and the report."""
