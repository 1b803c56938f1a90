"""Brokers of the same process, some of which are away for a while."""

from popmq_common.errors import BrokerUnreachable
from popmq_common.link.sends import SendCall
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.clients.broker_link import OnReply
from popmq_proxy.clients.brokers import Replying
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers


class Reachable:
    """It has the brokers instead of being them: a compiled class has no interpreted heirs."""

    def __init__(self, brokers: dict[str, LocalBroker], away: set[str]) -> None:
        """`away`: names of brokers that nobody reaches just now; the caller changes it."""
        self._known = brokers
        self._brokers = LocalBrokers(brokers)
        self._away = away

    def add(self, name: str, broker: LocalBroker) -> None:
        self._known[name] = broker

    def call(self, broker: str, call: link.Call | SendCall, timeout_ms: int) -> Replying:
        self._check(broker)
        return self._brokers.call(broker, call, timeout_ms)

    def send(self, broker: str, call: SendCall, timeout_ms: int, on_reply: OnReply) -> bool:
        self._check(broker)
        return self._brokers.send(broker, call, timeout_ms, on_reply)

    def answers(self, broker: str) -> bool:
        return broker not in self._away and self._brokers.answers(broker)

    async def close(self) -> None:
        await self._brokers.close()

    def _check(self, broker: str) -> None:
        if broker in self._away:
            raise BrokerUnreachable(broker=broker, reason="it is away")
