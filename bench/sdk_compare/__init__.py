"""PopMQ's SDK beside the official Python client, before one server."""
