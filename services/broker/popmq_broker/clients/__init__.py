"""Other processes that a broker speaks to."""
