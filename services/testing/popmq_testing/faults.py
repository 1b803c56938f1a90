"""Faults: an answer that is lost after the server has done what was asked, a broker that dies."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_broker.engine.broker import Broker
from popmq_common.errors import BrokerDown, BrokerUnreachable, PopMQError
from popmq_common.link.sends import SendCall, SendDone
from popmq_common.link.wire import failure_of
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.front.rpcs import Rpc
from popmq_proxy.rpc.shared.answer import Answer

BROKER: Final = "broker-a"
CALLS: Final = {
    "send": ("SendMessage",),
    "receive": ("ReceiveRecords", "ReceiveMessage"),
    "ack": ("AckRuns", "AckMessage"),
    "nack": ("NackRuns", "Nack"),
    "change_invisible": ("ChangeInvisibleDuration", "ExtendRuns"),
    "recall": ("RecallMessage",),
    "end_transaction": ("EndTransaction",),
}
"""What a test calls them → the RPCs; of those of a receive, ack or nack our SDK calls the first,
others the second; of a change of the invisible time it calls the second where it renews leases."""
_CALL_OF: Final = {rpc: call for call, rpcs in CALLS.items() for rpc in rpcs}


class Drops:
    """Which answers are lost next."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()

    def drop(self, call: str, times: int) -> None:
        """Raises `ValueError` for a call that is none of `CALLS`."""
        if call not in CALLS:
            raise ValueError(f"{call!r} is none of {', '.join(CALLS)}")
        self._left[call] += times

    def on(self, rpc: Rpc) -> Rpc:
        """The same RPC, whose answers may get lost."""

        call = _CALL_OF.get(rpc.name)
        if call is None:
            return rpc

        async def serve(context: Any, request: Any) -> Any:
            answer = await rpc.handler(context, request)
            if self._left[call] > 0 and not _is_empty(answer):
                self._left[call] -= 1
                raise BrokerDown(broker=BROKER, reason=f"the test dropped the answer of {rpc.name}")
            return answer

        return replace(rpc, handler=serve, begin=None)


def _is_empty(answer: Any) -> bool:
    """Of a receive that brought nothing; consumers ask again and again."""
    return isinstance(answer, Answer) and answer.code == v2.MESSAGE_NOT_FOUND


class MortalBroker:
    """The broker as a proxy sees it: there, or gone in the middle of a call."""

    def __init__(self, *, new_groups_from: str) -> None:
        self._broker: Broker | None = None
        self._new_groups_from = new_groups_from
        self._under_way: set[asyncio.Task[link.Reply]] = set()

    def begin(self, broker: Broker) -> None:
        self._broker = broker

    def die(self) -> None:
        """Whoever waits for an answer gets an error."""
        self._broker = None
        for task in self._under_way:
            task.cancel()

    def _alive(self) -> Broker:
        if self._broker is None:
            raise _gone()
        return self._broker

    async def handle(self, call: link.Call) -> link.Reply:
        broker = self._alive()
        await self._begin_group(broker, call)
        task = asyncio.ensure_future(broker.handle(call))
        self._under_way.add(task)
        try:
            return await task
        except (asyncio.CancelledError, PopMQError):
            if self._broker is broker:
                raise
            raise _gone() from None
        finally:
            self._under_way.discard(task)

    async def _begin_group(self, broker: Broker, call: link.Call) -> None:
        """Tests send before they receive: a group that is made on first use begins where they
        want, not at the newest message."""
        asked = call.get_group
        if call.WhichOneof("body") != "get_group" or not asked.create:
            return
        if asked.group not in broker.state.catalog_state.groups:
            config = link.GroupConfig(
                name=asked.group, max_attempts=16, consume_from=self._new_groups_from
            )
            await broker.handle(link.Call(put_group=link.PutGroup(group=config)))

    def handle_sends(
        self, calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply | SendDone], None]
    ) -> None:
        if self._broker is None:
            for call in calls:
                answer(link.Reply(id=call.id, failure=failure_of(_gone())))
            return
        self._broker.handle_sends(calls, answer)


def _gone() -> BrokerUnreachable:
    return BrokerUnreachable(broker=BROKER, reason="the test has crashed it")
