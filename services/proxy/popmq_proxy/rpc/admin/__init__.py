"""popmq.admin.v1: what operators ask and change."""
