"""The HTTP/2 front: an ASGI server for gRPC in this process, without threads."""
