"""Has a client hung up? What it had written before is read first, so a connection with much to read
learns late that there is nobody any more. The system knows it at once."""

import asyncio
import socket
import sys
from typing import Final

CLOSED: Final = 7
CLOSED_BY_PEER: Final = 8
"""Of the states in Linux' `tcp_states.h`: TCP_CLOSE is left by a reset, TCP_CLOSE_WAIT by a FIN."""


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """False where the system does not tell."""
    if transport.is_closing():  # it has no socket any more, perhaps
        return True
    known = transport.get_extra_info("socket")
    if known is None or sys.platform != "linux":
        return False
    state: int = known.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state in (CLOSED, CLOSED_BY_PEER)
