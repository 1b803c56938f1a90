"""Decisions and formats of the broker: pure functions over values, no I/O, no clock."""
