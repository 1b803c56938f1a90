"""A proxy of several processes, which share its ports."""
