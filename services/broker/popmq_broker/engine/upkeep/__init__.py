"""Beside the calls: retention, and queues that are made again after damage."""
