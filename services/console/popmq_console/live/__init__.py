"""Live parts of pages, sent to browsers as server-sent events: one reading for all who look."""
