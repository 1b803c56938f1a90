"""Which names a browser may have in its address bar.

A page of another site can let its own name point to this machine and then read the console as if
it were its own (DNS rebinding). The header Host still has that name: only IP addresses, localhost
and names that the console was told are let in.
"""

from collections.abc import Collection
from ipaddress import ip_address


def is_allowed(host: str, names: Collection[str]) -> bool:
    """`host`: the header, with or without a port."""
    name = host_name(host)
    if not name:
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def host_name(host: str) -> str:
    """In lower case, without port and brackets; empty: it is none."""
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        return name if closed and (not port or port.startswith(":")) else ""
    name, _, _ = host.partition(":")
    return name.rstrip(".")
