"""Consumer groups: pulls, offsets, resets, starts, queue locks."""
