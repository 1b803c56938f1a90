"""popmq store, popmq export: a broker's files and snapshots."""
