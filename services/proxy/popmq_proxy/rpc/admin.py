"""popmq.admin.v1: topics and groups, on all brokers of the cluster."""

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, GroupNotFound, TopicNotFound
from popmq_common.names import is_user_topic
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core import order_conf
from popmq_proxy.rpc.context import CallContext, Upstream

QUEUES_DEFAULT = 8
MAX_ATTEMPTS_DEFAULT = 16
PERMISSIONS = {"read": 4, "read-write": 6}


class Admin:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def create_topic(
        self, ctx: CallContext, request: admin.CreateTopicRequest
    ) -> admin.CreateTopicResponse:
        queues = request.topic.queues or QUEUES_DEFAULT
        routes = self._upstream.routes
        brokers = [info.name for info in await routes.brokers()]
        config = link.TopicConfig(
            name=request.topic.name,
            read_queues=queues,
            write_queues=queues,
            perm=6,
            message_type=request.topic.message_type or "NORMAL",
            order_conf=order_conf.conf_for(
                await routes.newest(request.topic.name),
                brokers,
                queues,
                anew=request.place_groups_anew,
            ),
        )
        call = link.Call(put_topic=link.PutTopic(topic=config))
        replies = await self._upstream.on_all_brokers(call)
        self._upstream.routes.forget(config.name)
        return admin.CreateTopicResponse(brokers=sorted(replies))

    async def set_permission(
        self, ctx: CallContext, request: admin.SetPermissionRequest
    ) -> admin.SetPermissionResponse:
        """Raises `BadRequest`, `BrokerUnreachable` for a broker that is none."""
        perm = PERMISSIONS.get(request.permission)
        if perm is None:
            reason = f"permission {request.permission!r}, one of {', '.join(PERMISSIONS)}"
            raise BadRequest(reason=reason)
        call = link.Call(set_permission=link.SetPermission(perm=perm))
        await self._upstream.call(request.broker, call)
        self._upstream.routes.make_stale()
        return admin.SetPermissionResponse()

    async def delete_topic(
        self, ctx: CallContext, request: admin.DeleteTopicRequest
    ) -> admin.DeleteTopicResponse:
        await self._upstream.routes.routes(request.name)  # raises when no broker has it
        for broker in await self._brokers_of(request.name):
            call = link.Call(delete_topic=link.DeleteTopic(topic=request.name))
            await self._upstream.call(broker, call)
        self._upstream.routes.forget(request.name)
        return admin.DeleteTopicResponse()

    async def list_topics(
        self, ctx: CallContext, request: admin.ListTopicsRequest
    ) -> admin.ListTopicsResponse:
        topics = {
            status.config.name: status.config
            for reply in (await self._describe(link.Describe())).values()
            for status in reply.topics
            if request.system or is_user_topic(status.config.name)
        }
        found = [_topic(config) for _, config in sorted(topics.items())]
        return admin.ListTopicsResponse(topics=found)

    async def describe_topic(
        self, ctx: CallContext, request: admin.DescribeTopicRequest
    ) -> admin.DescribeTopicResponse:
        response = admin.DescribeTopicResponse()
        if request.settings_only:
            known = await self._upstream.ask_brokers(request.name)
            if not known:
                raise TopicNotFound(topic=request.name)
            return admin.DescribeTopicResponse(topic=_topic(known[0].topic))
        for broker, reply in (await self._describe(link.Describe())).items():
            for status in reply.topics:
                if status.config.name != request.name:
                    continue
                response.topic.CopyFrom(_topic(status.config))
                for queue in status.queues:
                    response.queues.add(
                        broker=broker,
                        queue_id=queue.queue_id,
                        min_offset=queue.min_offset,
                        max_offset=queue.max_offset,
                    )
        if not response.HasField("topic"):
            raise TopicNotFound(topic=request.name)
        return response

    async def create_group(
        self, ctx: CallContext, request: admin.CreateGroupRequest
    ) -> admin.CreateGroupResponse:
        group = request.group
        config = link.GroupConfig(
            name=group.name,
            fifo=group.fifo,
            max_attempts=group.max_attempts or MAX_ATTEMPTS_DEFAULT,
            consume_from=group.consume_from or "LAST",
            retry_policy=_link_policy(group) if group.HasField("retry_policy") else None,
            consume_from_ms=group.consume_from_ms,
            lock_hold_ms=group.lock_hold_ms,
        )
        replies = await self._upstream.on_all_brokers(
            link.Call(put_group=link.PutGroup(group=config))
        )
        self._upstream.forget_group(group.name)
        return admin.CreateGroupResponse(brokers=sorted(replies))

    async def delete_group(
        self, ctx: CallContext, request: admin.DeleteGroupRequest
    ) -> admin.DeleteGroupResponse:
        known = [
            broker
            for broker, reply in (await self._describe(link.Describe())).items()
            if any(status.config.name == request.name for status in reply.groups)
        ]
        if not known:
            raise GroupNotFound(group=request.name)
        for broker in known:
            call = link.Call(delete_group=link.DeleteGroup(group=request.name))
            await self._upstream.call(broker, call)
        self._upstream.forget_group(request.name)
        return admin.DeleteGroupResponse()

    async def list_groups(
        self, ctx: CallContext, request: admin.ListGroupsRequest
    ) -> admin.ListGroupsResponse:
        groups = {
            status.config.name: status.config
            for reply in (await self._describe(link.Describe())).values()
            for status in reply.groups
        }
        found = [_group(config) for _, config in sorted(groups.items())]
        return admin.ListGroupsResponse(groups=found)

    async def describe_group(
        self, ctx: CallContext, request: admin.DescribeGroupRequest
    ) -> admin.DescribeGroupResponse:
        response = admin.DescribeGroupResponse()
        if request.settings_only:
            group = await self._upstream.group_everywhere(request.name)
            if group is None:
                raise GroupNotFound(group=request.name)
            return admin.DescribeGroupResponse(group=_group(group))
        for broker, reply in (await self._describe(link.Describe())).items():
            for status in reply.groups:
                if status.config.name != request.name:
                    continue
                response.group.CopyFrom(_group(status.config))
                for queue in status.queues:
                    response.queues.add(
                        broker=broker,
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        committed_offset=queue.committed_offset,
                        max_offset=queue.max_offset,
                        in_flight=queue.in_flight,
                        lag=queue.lag,
                        expired=queue.expired,
                        min_offset=queue.min_offset,
                        locked_by=queue.locked_by,
                    )
        if not response.HasField("group"):
            raise GroupNotFound(group=request.name)
        return response

    async def _describe(self, what: link.Describe) -> dict[str, link.DescribeReply]:
        replies = await self._upstream.on_all_brokers(link.Call(describe=what))
        return {broker: reply.describe for broker, reply in replies.items()}

    async def _brokers_of(self, topic: str) -> list[str]:
        routes = await self._upstream.routes.routes(topic)
        return [route.broker.name for route in routes]


def _topic(config: link.TopicConfig) -> admin.Topic:
    return admin.Topic(
        name=config.name, message_type=config.message_type, queues=config.write_queues
    )


def _group(config: link.GroupConfig) -> admin.Group:
    return admin.Group(
        name=config.name,
        fifo=config.fifo,
        max_attempts=config.max_attempts,
        consume_from=config.consume_from,
        consume_from_ms=config.consume_from_ms,
        lock_hold_ms=config.lock_hold_ms,
        retry_policy=admin.RetryPolicy(
            delays_ms=config.retry_policy.delays_ms,
            initial_ms=config.retry_policy.initial_ms,
            max_ms=config.retry_policy.max_ms,
            multiplier=config.retry_policy.multiplier,
        ),
    )


def _link_policy(group: admin.Group) -> link.RetryPolicy:
    policy = group.retry_policy
    return link.RetryPolicy(
        delays_ms=policy.delays_ms,
        initial_ms=policy.initial_ms,
        max_ms=policy.max_ms,
        multiplier=policy.multiplier,
    )
