"""Delayed messages are parked, delivered in time, and recalled."""
