"""popmq doctor: its checks and what it says."""
