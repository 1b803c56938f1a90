"""The proxy: the public protocol for clients, the link to brokers. Keeps nothing that matters."""
