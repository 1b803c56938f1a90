"""Formats of the store's files, and what recovery and retention decide."""
