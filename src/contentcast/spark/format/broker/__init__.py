"""`format("contentcast")` with option `broker`: a live broker as a source and as a sink."""
