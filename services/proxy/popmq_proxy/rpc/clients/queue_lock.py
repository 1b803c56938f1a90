"""popmq.consumer.v1 LockQueues: queues that a consumer has alone, at all their brokers."""

import asyncio
from collections import defaultdict

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_common.errors import BadRequest, Unavailable
from popmq_common.records.names import check_group
from popmq_consumer.v1 import consumer_pb2 as consumer
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages.status import ok
from popmq_proxy.rpc.clients.offsets import broker_of
from popmq_proxy.rpc.shared.context import CallContext, Upstream

QUEUES_MAX = 1_024
"""Of a request."""


class QueueLockHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def lock_queues(
        self, ctx: CallContext, request: consumer.LockQueuesRequest
    ) -> consumer.LockQueuesResponse:
        """Those that it has now, for the shortest of the brokers' times.

        A broker that does not answer has locked nothing. Raises `BadRequest`, `TopicNotFound`.
        """
        group = ctx.stored(request.group)
        check_group(group)
        if not 1 <= len(request.message_queues) <= QUEUES_MAX:
            text = f"{len(request.message_queues)} queues, 1 to {QUEUES_MAX} allowed"
            raise BadRequest(reason=text)
        wanted: dict[tuple[str, str], list[v2.MessageQueue]] = defaultdict(list)
        for queue in request.message_queues:
            wanted[broker_of(queue), ctx.stored(queue.topic)].append(queue)
        await self._upstream.group(group, ctx.user)  # made on first use
        calls = [
            self._ask(
                ctx.user,
                broker,
                link.LockQueues(
                    group=group,
                    topic=topic,
                    queue_ids=[queue.id for queue in queues],
                    client_id=ctx.client_id,
                    release=request.release,
                ),
            )
            for (broker, topic), queues in wanted.items()
        ]
        replies = await asyncio.gather(*calls)
        response = consumer.LockQueuesResponse(status=ok())
        for queues, reply in zip(wanted.values(), replies, strict=True):
            held = set(reply.queue_ids)
            response.message_queues.extend(queue for queue in queues if queue.id in held)
        if response.message_queues:
            life_ms = min(reply.life_ms for reply in replies if reply.queue_ids)
            response.life.FromMilliseconds(life_ms)
        return response

    async def _ask(self, user: str, broker: str, lock: link.LockQueues) -> link.LockQueuesReply:
        try:
            call = link.Call(lock_queues=lock)
            return (await self._upstream.call_of_group(lock.group, user, broker, call)).lock_queues
        except Unavailable as down:
            self._upstream.log.warning("lock.unasked", broker=broker, reason=str(down))
            return link.LockQueuesReply()
