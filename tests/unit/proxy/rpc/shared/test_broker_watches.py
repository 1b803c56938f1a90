"""One watch of a broker ends and the next one begins."""

import asyncio
from typing import Any

from harness.names import GROUP, TOPIC

from popmq_common.process import logs
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.broker_watches import BrokerWatches

BROKER = "broker-b"


class Broker:
    """Its first watch ends at once, and a poll looks again before the event loop has told so; the
    second one waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.watches = BrokerWatches(
            self.call, lambda _: True, lambda _: [BROKER], logs.get("test")
        )
        self.poll = self.watches.enter(link.Pop(group=GROUP, topic=TOPIC))
        self.look: asyncio.Task[None] | None = None

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        if call.HasField("watch"):
            self.begun += 1
            if self.look is None:
                self.look = asyncio.create_task(self.watches.look(self.poll, broker))
            else:
                await self.wait()
        return link.Reply()

    async def wait(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def test_a_watch_begun_as_the_last_one_ends_is_cancelled_at_the_close() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))
    broker = Broker()
    await broker.watches.look(broker.poll, BROKER)
    assert broker.look is not None
    await broker.look
    await broker.watches.close()
    assert (broker.begun, broker.cancelled, complaints) == (2, 1, [])
