"""Replicas of one broker: the primary's side, the follower's side, and what a replica keeps."""
