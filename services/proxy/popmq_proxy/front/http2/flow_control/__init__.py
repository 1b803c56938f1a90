"""Bytes in and out of streams, within the windows of both ends."""
