"""Send, receive, ack, recall, and transactions."""
