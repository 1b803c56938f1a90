"""The state is made again from the log."""
