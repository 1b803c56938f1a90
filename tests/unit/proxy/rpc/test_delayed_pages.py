"""Are delayed messages of several brokers one list in the order in which they are due?"""

import random

from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.delayed_cursor import Place, decode, encode
from popmq_proxy.rpc.messages.delayed import FIRST, _page

Stored = dict[str, list[tuple[int, int]]]
"""By broker: (due_ms, offset)."""


def asked(
    stored: Stored, places: dict[str, Place | None], count: int, scanned_max: int, hidden: set[int]
) -> dict[str, link.ListDelayedReply]:
    """As brokers answer; offsets in `hidden` are of another topic."""
    replies = {}
    for broker, place in places.items():
        if place is None:
            continue
        reply = replies[broker] = link.ListDelayedReply()
        left = [one for one in sorted(stored[broker]) if one > place]
        for due_ms, offset in left[:scanned_max]:
            if len(reply.messages) == count:
                break
            reply.scanned += 1
            at = link.DelayedPlace(due_ms=due_ms, offset=offset)
            reply.scanned_to.CopyFrom(at)
            if offset not in hidden:
                reply.messages.append(
                    link.DelayedMessage(topic="t", message_id=f"{broker}{offset}", place=at)
                )
        reply.more = reply.scanned < len(left)
    return replies


def test_pages_have_every_message_once_and_in_order() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(200):
        brokers = ["a", "b", "c"][: chance.randint(1, 3)]
        stored: Stored = {
            broker: [(chance.randrange(40), offset) for offset in range(chance.randrange(30))]
            for broker in brokers
        }
        hidden = {offset for offset in range(30) if chance.random() < 0.3}
        places: dict[str, Place | None] = dict.fromkeys(brokers, FIRST)
        count, scanned_max = chance.randint(1, 7), chance.randint(1, 9)
        found: list[tuple[int, str]] = []
        for _ in range(500):
            replies = asked(stored, places, count, scanned_max, hidden)
            messages, places = _page(replies, places, count)
            assert len(messages) <= count
            found += [(one.due_ms, one.message_id) for one in messages]
            if not any(places.values()):
                break
            places = decode(encode(places))
        else:
            raise AssertionError("the pages do not end")
        assert [due_ms for due_ms, _ in found] == sorted(due_ms for due_ms, _ in found)
        expected = {
            (due_ms, f"{broker}{offset}")
            for broker, entries in stored.items()
            for due_ms, offset in entries
            if offset not in hidden
        }
        assert len(found) == len(expected)
        assert set(found) == expected
