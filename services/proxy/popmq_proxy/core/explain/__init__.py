"""One message's timeline, and the verdict on it."""
