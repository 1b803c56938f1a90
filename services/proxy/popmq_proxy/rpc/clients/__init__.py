"""Clients and their groups: routes, settings, offsets, pulls, queue locks."""
