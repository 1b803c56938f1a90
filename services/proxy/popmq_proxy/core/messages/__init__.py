"""Messages and statuses between the public protocol and the broker's records."""
