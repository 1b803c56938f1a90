"""Faults that the simulation must find: core, or a replica's steps, changed in one place."""
