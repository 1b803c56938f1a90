"""popmq.consumer.v1 Join: which queues of a topic a consumer that pulls has just now.

The brokers know the members; the shares are computed here, over the queues of all brokers, so that
they are as even as they can be. Two proxies compute the same.
"""

import asyncio

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import BadRequest, Unavailable
from popmq_common.records.names import check_group, classic_retry_topic
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.convert import duration_ms
from popmq_proxy.core.messages.status import ok
from popmq_proxy.core.routing.allocation import STRATEGIES
from popmq_proxy.rpc.clients.route import RouteHandler
from popmq_proxy.rpc.shared.context import CallContext, Upstream

SESSION_MS_DEFAULT = 30_000


class MembershipHandler:
    def __init__(self, upstream: Upstream, route: RouteHandler) -> None:
        self._upstream = upstream
        self._route = route

    async def join(self, ctx: CallContext, request: consumer.JoinRequest) -> consumer.JoinResponse:
        """Raises `TopicNotFound`, `BadRequest`, `TooManyRequests`."""
        group, topic = ctx.stored(request.group), ctx.stored(request.topic)
        check_group(group)
        if request.strategy not in consumer.Strategy.values():
            raise BadRequest(reason=f"strategy {request.strategy}, 0 to 2")
        session_ms = duration_ms(request.session) or SESSION_MS_DEFAULT
        await self._upstream.group(group, ctx.user)  # made on first use
        call = link.Join(
            group=group,
            topic=topic,
            client_id=ctx.client_id,
            session_ms=session_ms,
            leave=request.leave,
        )
        if topic == classic_retry_topic(group):
            told = await self._open(ctx.user, call)
            queues = await self._queues(ctx, request.topic)
        else:
            queues = await self._queues(ctx, request.topic)
            told = await self._tell_all(ctx.user, {queue.broker.name for queue in queues}, call)
        if request.leave:
            return consumer.JoinResponse(status=ok())
        members = sorted({member for some in told for member in some} | {ctx.client_id})
        allocate = STRATEGIES[consumer.Strategy.Name(request.strategy).removeprefix("STRATEGY_")]
        places = [(queue.broker.name, queue.id) for queue in queues]
        own = set(allocate(members, places, ctx.client_id))
        return consumer.JoinResponse(
            status=ok(),
            queues=[queue for queue, place in zip(queues, places, strict=True) if place in own],
            members=members,
        )

    async def _queues(self, ctx: CallContext, topic: v2.Resource) -> list[v2.MessageQueue]:
        routed = await self._route.query_route(ctx, service.QueryRouteRequest(topic=topic))
        return sorted(
            (queue for queue in routed.message_queues if queue.permission != v2.WRITE),
            key=lambda queue: (queue.broker.name, queue.id),
        )

    async def _open(self, user: str, join: link.Join) -> list[list[str]]:
        """Retries lie on the broker of the message that failed, so all brokers have the topic: who
        joins makes it where it is not there yet."""
        routes = self._upstream.routes
        brokers = {info.name for info in await routes.brokers()}
        told = await self._tell_all(user, brokers, join)
        known = routes.known(join.topic)
        if known is None or brokers - set(known.readable_brokers):
            routes.forget(join.topic)
        return told

    async def _tell_all(self, user: str, brokers: set[str], join: link.Join) -> list[list[str]]:
        return await asyncio.gather(*(self._tell(user, broker, join) for broker in sorted(brokers)))

    async def _tell(self, user: str, broker: str, join: link.Join) -> list[str]:
        """A broker that does not answer knows nobody: its queues cannot be pulled either."""
        own = link.Join()
        own.CopyFrom(join)
        try:
            call = link.Call(join=own)
            reply = await self._upstream.call_of_group(join.group, user, broker, call)
            return list(reply.join.members)
        except Unavailable as down:
            self._upstream.log.warning("join.untold", broker=broker, reason=str(down))
            return []
