"""Allocation: which queues of a topic each member of a group pulls.

All members must use one strategy; then whoever computes it gets the same shares, and each queue is
in exactly one of them.

    average            7 queues, 3 members: a a a b b c c    neighbours stay together
    circle             a b c a b c a                         one after the other
    consistent hash    a member that comes or goes moves few queues of the others

Source: RocketMQ AllocateMessageQueueAveragely, …AveragelyByCircle, …ConsistentHash.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

VIRTUAL_NODES: Final = 10
"""Of a member on the ring."""
Q = TypeVar("Q")


def average(members: Sequence[str], queues: Sequence[Q], me: str) -> list[Q]:
    """The first members get one more when it does not come out even."""
    at, count = members.index(me), len(members)
    share, rest = divmod(len(queues), count)
    first = at * share + min(at, rest)
    return list(queues[first : first + share + (at < rest)])


def circle(members: Sequence[str], queues: Sequence[Q], me: str) -> list[Q]:
    return list(queues[members.index(me) :: len(members)])


def consistent_hash(members: Sequence[str], queues: Sequence[Q], me: str) -> list[Q]:
    """A queue belongs to the first virtual node behind its own place on the ring."""
    ring = sorted(
        (_place(f"{member}-{i}"), member) for member in members for i in range(VIRTUAL_NODES)
    )
    places = [place for place, _ in ring]
    return [
        queue
        for queue in queues
        if ring[bisect_right(places, _place(str(queue))) % len(ring)][1] == me
    ]


def _place(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:8])


STRATEGIES: Final[dict[str, Callable[..., list[object]]]] = {
    "AVERAGE": average,
    "CIRCLE": circle,
    "CONSISTENT_HASH": consistent_hash,
}
