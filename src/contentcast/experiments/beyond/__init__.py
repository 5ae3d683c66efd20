"""What the link-matching paper leaves to future work, measured: its section 6 asks the questions."""
