"""popmq.admin.v1 Explain, Inspect and RebuildQueue: every broker is asked, and one answer made of
it."""

from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, NoBroker, PopMQError, Unavailable
from popmq_common.process.installed import version
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.timeline import explained
from popmq_proxy.rpc.admin.replicas import groups_of
from popmq_proxy.rpc.shared.context import CallContext, Upstream

TIMEOUT_MS: Final = 15_000
"""A broker may have to bring its index up to date first, and then reads its journal."""


class ExplainHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def explain(
        self, ctx: CallContext, request: admin.ExplainRequest
    ) -> admin.ExplainResponse:
        """Raises `BadRequest`, `NoBroker`, `NoIndex`, and what else a broker says: the answer of
        some of them would not be all there is to say."""
        if not request.message_id:
            raise BadRequest(reason="no message id to explain")
        brokers = [info.name for info in await self._upstream.routes.brokers()]
        if not brokers:
            raise NoBroker()
        facts = {}
        for broker in sorted(brokers):
            asked = link.Explain(
                message_id=request.message_id, topic=request.topic, group=request.group
            )
            reply = await self._upstream.call(broker, link.Call(explain=asked), TIMEOUT_MS)
            facts[broker] = reply.explain
        return explained(request.message_id, request.topic, facts)

    async def inspect(
        self, ctx: CallContext, request: admin.InspectRequest
    ) -> admin.InspectResponse:
        """How each broker is. A broker that does not answer is told, not raised."""
        response = admin.InspectResponse(version=version(), now_ms=self._upstream.clock.now_ms())
        try:
            registered = await self._upstream.routes.expected()
        except Unavailable as down:
            response.nameserver_failure = str(down)
            return response
        for info in registered:
            state = response.brokers.add(name=info.name, address=info.address)
            if info.replica:
                (group,) = await groups_of(self._upstream, [info])
                state.replicas.CopyFrom(group)
            try:
                reply = await self._upstream.call(info.name, link.Call(inspect=link.Inspect()))
            except PopMQError as failed:
                state.failure = str(failed)
            else:
                _tell(state, reply.inspect)
        return response

    async def rebuild_queue(
        self, ctx: CallContext, request: admin.RebuildQueueRequest
    ) -> admin.RebuildQueueResponse:
        """A broker that refuses, or does not answer, is told; raised when it alone was asked, and
        when none has the queue."""
        asked = link.RebuildQueue(
            topic=request.topic, queue_id=request.queue_id, begin=request.begin
        )
        names = [info.name for info in await self._upstream.routes.brokers()]
        response = admin.RebuildQueueResponse()
        for broker in [request.broker] if request.broker else sorted(names):
            told = response.brokers.add(broker=broker)
            try:
                reply = await self._upstream.call(broker, link.Call(rebuild_queue=asked))
            except PopMQError as refused:
                if request.broker:
                    raise
                told.failure = str(refused)
                continue
            for field in ("running", "looked_at", "repaired", "unreadable", "delivered", "failure"):
                setattr(told, field, getattr(reply.rebuild_queue, field))
        if not response.brokers:
            raise NoBroker()
        return response


def _tell(state: admin.BrokerState, found: link.InspectReply) -> None:
    for field in (
        "version",
        "now_ms",
        "started_ms",
        "data_dir",
        "disk_total_bytes",
        "disk_free_bytes",
        "disk_clean_percent",
        "disk_refuse_percent",
        "disk_reserve_bytes",
        "data_dir_owner",
        "index_failed",
        "refusing",
    ):
        setattr(state, field, getattr(found, field))
    state.replaced_peers.extend(found.replaced_peers)
    state.damaged_count = found.damaged_count
    for place in found.damaged:
        state.damaged.add().MergeFromString(place.SerializeToString())  # field by field the same
    for passed in found.passed:
        state.passed.add().MergeFromString(passed.SerializeToString())
    for use in found.groups:
        state.groups.add(
            group=use.group,
            topic=use.topic,
            lag=use.lag,
            in_flight=use.in_flight,
            waiting_polls=use.waiting_polls,
            last_receive_ms=use.last_receive_ms,
            skipped=use.skipped,
            skipped_at_ms=use.skipped_at_ms,
        )
    for topic in found.draining:
        told = state.draining.add(
            topic=topic.topic,
            write_queues=topic.write_queues,
            read_queues=topic.read_queues,
            stored=topic.stored,
        )
        for left in topic.left:
            told.left.add(group=left.group, count=left.count)
