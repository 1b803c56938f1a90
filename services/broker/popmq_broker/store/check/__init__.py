"""popmq store check: a stopped directory is read and judged."""
