"""The client processes: one load for all systems, and an end for each system's usual client.

They run in the environment `.venv-peers`, which has the clients and PopMQ's SDK.
"""
