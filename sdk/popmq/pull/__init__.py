"""Pulling from offsets: pull, push, orderly and broadcast consumers."""
