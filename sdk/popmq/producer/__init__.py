"""Sending: producers and transactions."""
