"""What all handlers use: the context, waiting polls, heartbeats, groups' starts."""
