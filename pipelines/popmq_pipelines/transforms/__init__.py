"""DataFrame → DataFrame: no session, no path, no `collect`."""
