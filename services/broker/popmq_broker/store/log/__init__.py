"""The commit log: batches are appended and flushed."""
