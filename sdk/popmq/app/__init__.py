"""Applications of handlers: declared, run, supervised."""
