"""What a group has failed on: sent back, copied, dead; dead letters sent again or purged."""
