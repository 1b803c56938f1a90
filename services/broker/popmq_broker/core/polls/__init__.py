"""Receives that wait for messages, and counts of what was asked for."""
