"""A broker's files become a snapshot, and go on where the last one ended."""
