"""Groups: offsets, where they start, who pulls which queue, queue locks."""
