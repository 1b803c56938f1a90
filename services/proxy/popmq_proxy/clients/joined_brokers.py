"""One broker in the proxy's own process, the others over the link."""

import asyncio
from dataclasses import dataclass

from popmq_common.link.sends import SendCall
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import OnReply
from popmq_proxy.clients.brokers import Brokers, LinkBrokers, Replying
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers


@dataclass(frozen=True, slots=True)
class OwnBroker:
    """The broker in a proxy's own process."""

    name: str
    broker: LocalBroker


class JoinedBrokers:
    def __init__(self, own: OwnBroker, others: LinkBrokers, linger_ms_max: int = 0) -> None:
        """`linger_ms_max`: see `Linger`."""
        self._own_name = own.name
        self._own = LocalBrokers({own.name: own.broker}, linger_ms_max)
        self._others = others

    def _of(self, broker: str) -> Brokers:
        return self._own if broker == self._own_name else self._others

    def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> Replying:
        return self._of(broker).call(broker, call, timeout_ms)

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        return self._of(broker).send(broker, call, timeout_ms, on_reply)

    def answers(self, broker: str) -> bool:
        return self._of(broker).answers(broker)

    async def close(self) -> None:
        await asyncio.gather(self._own.close(), self._others.close())
