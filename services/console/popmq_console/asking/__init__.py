"""Questions that take several calls, or that several screens have."""
