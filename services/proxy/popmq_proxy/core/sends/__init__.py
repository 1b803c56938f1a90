"""SendMessage requests, read and looked at as bytes: no object for each message."""
