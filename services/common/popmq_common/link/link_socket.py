"""The link of a proxy to a broker of its own machine: a Unix socket beside the broker's port.

It costs about half of the CPU time of TCP over loopback, which counts when few messages share a
frame. It is named after the address that the broker listens on, in Linux' abstract namespace: the
name ends with the broker's process, and only those see it who are in the same network namespace,
where a connection to the address would reach this broker too. What advertises another address than
it listens on, for example that of a relay, is not found this way.
"""

import os
import socket
import sys
from struct import Struct

from popmq_common.process.logs import Log

PREFIX = "\0popmq-link-"
BACKLOG = 100
"""As of the port: more connections at a time than a broker has proxies of its machine."""
PEER = Struct("3i")
"""Process, user and group: what Linux' SO_PEERCRED tells, `man 7 unix`."""
ROOT = 0


def listening(address: str, log: Log) -> socket.socket | None:
    """Beside the port of `address`, host:port, which listens already. None: not on this system, or
    the name is taken; proxies use the port then."""
    if sys.platform != "linux":
        return None
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(PREFIX + address)
        listener.listen(BACKLOG)
    except OSError as taken:
        listener.close()
        log.warning("link.no_socket", address=address, reason=str(taken))
        return None
    listener.setblocking(False)
    return listener


def connected(address: str, log: Log) -> socket.socket | None:
    """To the broker at `address`, host:port. None: it has no such socket here, or what has it is
    not trusted; then the port is the way.

    Does not wait: a Unix socket connects at once or not at all.
    """
    if sys.platform != "linux":
        return None
    made = socket.socket(socket.AF_UNIX)
    made.setblocking(False)
    try:
        made.connect(PREFIX + address)
        _, user, _ = PEER.unpack(made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    except OSError:
        made.close()
        return None
    if not trusted(user, os.geteuid()):
        made.close()
        log.warning("link.socket_not_trusted", address=address, user_id=user)
        return None
    return made


def trusted(user: int, own: int) -> bool:
    """Whether `user` may be the broker. Anyone of the machine can take a name that is free, but
    not the broker's port."""
    return user in (ROOT, own)
