"""spark.read.format("contentcast"): the source, the sink, and the folder that both know."""
