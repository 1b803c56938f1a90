"""Files on disk: opened, written, replaced as a whole; segments of one size; settings."""
