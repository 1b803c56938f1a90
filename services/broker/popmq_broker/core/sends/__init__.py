"""Sends that are known: a send that is repeated is answered with its first place."""
