"""Stands in the image with Envoy for pyqwest, 12 MiB of a client for outgoing HTTP calls.

pyvoy asks for these names when it starts, for applications that call others; a proxy calls none, so
nothing is ever made of them. `prune` puts this there.
"""


class ReadError(Exception):
    """Of a call's answer."""


class WriteError(Exception):
    """Of a call's request."""


class Headers:
    """Of a call."""


class Response:
    """To a call."""


class SyncResponse:
    """The same, in a thread."""
