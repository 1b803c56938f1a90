"""Half messages are committed, rolled back, or asked about."""
