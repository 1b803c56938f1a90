"""The broker: messages in a log, handed out under leases, and the link that proxies speak."""
