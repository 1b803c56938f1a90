"""The RPCs of the public protocol, free of any transport: a request in, a response out."""
