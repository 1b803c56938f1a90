"""PopMQ's SDK beside the queues that a Python user would pick, each with its usual client."""
