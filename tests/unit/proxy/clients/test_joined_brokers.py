"""A broker in the proxy's own process beside others: each call goes to the right one."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from popmq_common.errors import BrokerUnreachable
from popmq_common.link.sends import SendCall, SendDone
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import Outcome
from popmq_proxy.clients.brokers import LinkBrokers
from popmq_proxy.clients.joined_brokers import JoinedBrokers, OwnBroker
from popmq_proxy.clients.local_brokers import LocalBroker


async def _nowhere(broker: str) -> str:
    raise BrokerUnreachable(broker=broker, reason="nobody knows it")


async def _handle(call: link.Call) -> link.Reply:
    return link.Reply(id=call.id)


def _handle_sends(
    calls: Sequence[link.Call | SendCall], answer: Callable[[link.Reply | SendDone], None]
) -> None:
    for call in calls:
        answer(link.Reply(id=call.id, send=link.SendReply(queue_offset=7)))


@pytest.fixture(name="joined")
def _joined() -> JoinedBrokers:
    own = OwnBroker("own", LocalBroker(_handle, _handle_sends))
    return JoinedBrokers(own, LinkBrokers(_nowhere, b""))


async def test_its_own_is_called(joined: JoinedBrokers) -> None:
    assert joined.answers("own")
    await joined.call("own", link.Call(describe=link.Describe()), 1_000)
    heard: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    assert joined.send("own", SendCall("t", 0, []), 1_000, heard.set_result)
    outcome = await heard
    assert isinstance(outcome, link.Reply | SendDone)
    await joined.close()


async def test_another_one_is_reached_over_the_link(joined: JoinedBrokers) -> None:
    with pytest.raises(BrokerUnreachable, match="nobody knows it"):
        await joined.call("other", link.Call(describe=link.Describe()), 1_000)
    assert not joined.send("other", SendCall("t", 0, []), 1_000, lambda _: None)
    assert not joined.answers("other")
    await joined.close()
