"""Does a follower tell its primary of everything that is on its disk?"""

import asyncio
from types import SimpleNamespace
from typing import Any

from popmq_broker.core.replication.epochs import Epochs
from popmq_broker.core.replication.follower import Following
from popmq_broker.core.replication.group_record import GroupRecord
from popmq_broker.engine.replication.follow import Follow
from popmq_internal.v1 import link_pb2 as link


class Primary:
    """Answers an acknowledgement when it is told to."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.may_answer = asyncio.Event()

    async def call(self, call: link.Call, _timeout_s: float) -> link.Reply:
        self.told.append(call.replica_ack.durable_end)
        await self.may_answer.wait()
        return link.Reply()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_comes_to_disk_while_it_acknowledges_is_acknowledged_next() -> None:
    """Nothing else may come: the primary's senders would wait for the next fetch."""
    primary = Primary()
    here: Any = SimpleNamespace(me=SimpleNamespace(replica="a2"))
    store: Any = SimpleNamespace(commit=lambda _: None)
    record = GroupRecord(epoch=3, primary="a1", address="h:1", identity="i")
    following = Following(Epochs(3), 3, 0, 0)
    follow = Follow(here, record, 1, following, store, primary)
    acknowledging = asyncio.create_task(follow._acknowledge())
    await turns()
    store.on_disk(100)
    await turns()
    store.on_disk(200)
    await turns()
    assert primary.told == [100]
    primary.may_answer.set()
    await turns()
    assert primary.told == [100, 200]
    acknowledging.cancel()
    await asyncio.gather(acknowledging, return_exceptions=True)
