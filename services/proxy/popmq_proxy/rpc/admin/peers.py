"""Brokers hear of each other through the proxies, by the identities of their data directories.

One that came back with another identity than the others remember has lost its disk, or another one
is mounted. It gets the topics and groups that it had from the others at once, so that sends and
receives go on; that messages are gone is told until somebody accepts it
(broker/engine/catalog/peers.py).
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BrokerUnreachable, PopMQError, Unavailable
from popmq_common.records.names import is_user_topic
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import CallContext, Upstream

EVERY_S: Final = 2.0
TIMEOUT_MS: Final = 3_000


class PeersHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._restored: dict[str, str] = {}
        """Brokers that got back what they had, with the identity that they have now."""

    async def run(self) -> None:
        """Tell the brokers of each other, for ever."""
        while True:
            await self.tell()
            await asyncio.sleep(EVERY_S)

    async def tell(self) -> None:
        """Once. What goes wrong is told by the calls that clients wait for; an older broker does
        not know the call."""
        identities = await self._identities()
        if len(identities) < 2:
            return
        peers = [link.Peer(name=name, identity=one) for name, one in sorted(identities.items())]
        asked = [self._ask(name, link.Call(peers=link.Peers(peers=peers))) for name in identities]
        replaced = {name for reply in await asyncio.gather(*asked) for name in reply}
        for name in sorted(replaced & identities.keys()):
            if self._restored.get(name) != identities[name]:
                await self._restore(name, identities[name])

    async def accept(
        self, ctx: CallContext, request: admin.AcceptBrokerRequest
    ) -> admin.AcceptBrokerResponse:
        """Raises `BrokerNotFound`, and `BrokerUnreachable` for one that tells no identity."""
        await self._upstream.registered(request.name)
        identity = (await self._identities()).get(request.name)
        if identity is None:
            raise BrokerUnreachable(
                broker=request.name, reason="it has not told its data directory"
            )
        peer = link.Peer(name=request.name, identity=identity)
        await self._upstream.on_all_brokers(link.Call(accept_peer=link.AcceptPeer(peer=peer)))
        return admin.AcceptBrokerResponse(identity=peer.identity)

    async def _identities(self) -> dict[str, str]:
        """Of the registered brokers that tell theirs."""
        try:
            registered = await self._upstream.routes.brokers()
        except Unavailable:
            return {}
        return {info.name: info.identity for info in registered if info.identity}

    async def _ask(self, broker: str, call: link.Call) -> Iterable[str]:
        try:
            return (await self._upstream.call(broker, call, TIMEOUT_MS)).peers.replaced
        except PopMQError:
            return ()

    async def _restore(self, broker: str, identity: str) -> None:
        """What the others have and it lacks: topics that were on it, and groups."""
        upstream = self._upstream
        upstream.log.error("broker.replaced", broker=broker, means="its messages are gone")
        try:
            topics, groups = await self._of_the_others(broker)
            for topic in topics:
                put = link.PutTopic(topic=topic, only_new=True)
                await upstream.call(broker, link.Call(put_topic=put))
            for group in groups:
                create = link.PutGroup(group=group)
                await upstream.call(broker, link.Call(put_group=create))
        except PopMQError as failed:
            upstream.log.warning("broker.not_restored", broker=broker, reason=str(failed))
            return
        self._restored[broker] = identity
        upstream.routes.make_stale()
        upstream.log.info("broker.restored", broker=broker, topics=len(topics), groups=len(groups))

    async def _of_the_others(
        self, broker: str
    ) -> tuple[list[link.TopicConfig], list[link.GroupConfig]]:
        """(topics that were on the broker, groups) that it lacks."""
        topics: dict[str, link.TopicConfig] = {}
        groups: dict[str, link.GroupConfig] = {}
        for name in await self._upstream.registered():
            call = link.Call(describe=link.Describe(settings_only=True))
            found = (await self._upstream.call(name, call)).describe
            if name == broker:
                own_topics = {status.config.name for status in found.topics}
                own_groups = {status.config.name for status in found.groups}
                continue
            topics |= {one.config.name: one.config for one in found.topics}
            groups |= {one.config.name: one.config for one in found.groups}
        return (
            [
                config
                for name, config in sorted(topics.items())
                if name not in own_topics and is_user_topic(name) and _was_on(broker, config)
            ],
            [config for name, config in sorted(groups.items()) if name not in own_groups],
        )


def _was_on(broker: str, topic: link.TopicConfig) -> bool:
    """A topic without a list of its brokers is on all."""
    return not topic.order_conf or f";{topic.order_conf}".find(f";{broker}:") >= 0
