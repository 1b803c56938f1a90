"""Channels, endpoints, telemetry, and calls that are tried again."""
