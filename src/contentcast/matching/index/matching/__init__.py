"""What an event meets: an encoded batch, the kernel that walks the cells, and the matches that come out."""
