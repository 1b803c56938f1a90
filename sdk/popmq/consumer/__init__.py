"""Receiving with leases: receive, renew, ack, nack."""
