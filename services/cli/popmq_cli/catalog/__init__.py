"""popmq topic, popmq group, popmq permission."""
