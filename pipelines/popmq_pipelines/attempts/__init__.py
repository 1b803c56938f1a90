"""Deliveries of a message: their order and number, against message groups and settings."""
