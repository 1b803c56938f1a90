"""The nameserver: which broker serves which topic. Everything in memory."""
