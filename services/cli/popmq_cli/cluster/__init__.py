"""popmq cluster, popmq top, popmq health."""
