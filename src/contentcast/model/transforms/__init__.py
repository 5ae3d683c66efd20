"""Events of one space become events of another: expressions, by value and by column."""
