"""Consume queues: entries, where they end, their repair."""
