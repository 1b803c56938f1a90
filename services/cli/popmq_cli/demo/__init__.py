"""popmq demo: a small shop, for a first look at the web console."""
