"""What a start does to files that a crash left, and the checkpoints that shorten it."""
