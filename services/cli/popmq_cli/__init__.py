"""The command `popmq`."""
