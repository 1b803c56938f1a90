"""Nameserver, broker and proxy in one process."""
