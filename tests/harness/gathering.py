"""Sends that wait until so many are under way."""

import asyncio

from popmq_proxy.core.routing.gathering import Gathering
from popmq_proxy.core.routing.linger import WINDOW_S, Linger

HOUR_MS = 3_600_000


def until(under_way: int) -> Linger:
    """So many were at a time in the window before this one, which does not end in any test."""
    gathering = Linger(HOUR_MS)
    ends_s = asyncio.get_running_loop().time() + HOUR_MS / 1000
    gathering.wait_s(ends_s - WINDOW_S, under_way)
    gathering.wait_s(ends_s, 1)
    return gathering


def gathering_until(under_way: int) -> Gathering:
    """The same for the sends to several brokers."""
    found = Gathering()
    found._linger = until(under_way)
    return found
