"""popmq.admin.v1: topics, on all brokers of the cluster."""

from collections.abc import Sequence

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, TopicExists, TopicNotFound
from popmq_common.records.names import is_user_topic
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing import order_conf
from popmq_proxy.rpc.shared.context import CallContext, Upstream

QUEUES_DEFAULT = 8
BOTH = 6
"""RocketMQ's bits: read and write."""


class TopicAdminHandler:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def create(
        self, ctx: CallContext, request: admin.CreateTopicRequest
    ) -> admin.CreateTopicResponse:
        """Raises `TopicExists` for one with other settings, `OwnedByOther` for one of another
        owner, `IllegalOwner`; then nothing has changed."""
        wanted = request.topic
        queues = wanted.queues or QUEUES_DEFAULT
        kind = wanted.message_type or "NORMAL"
        brokers = await self._brokers()
        known = await self._known(wanted.name)
        for config in known.values():
            if (config.message_type, config.write_queues) != (kind, queues):
                raise TopicExists(
                    topic=config.name, message_type=config.message_type, queues=config.write_queues
                )
        confs = [config.order_conf for config in known.values()]
        config = link.TopicConfig(
            name=wanted.name,
            read_queues=queues,
            write_queues=queues,
            perm=BOTH,
            message_type=kind,
            order_conf=next(filter(None, confs), "") or order_conf.conf_of(brokers, queues),
            owner=wanted.owner or None,
        )
        # those that have it first: when it is refused there it is made nowhere
        having = [broker for broker in brokers if broker in known]
        await self._put(having, link.PutTopic(topic=config, create=True))
        config.owner = wanted.owner or max((one.owner for one in known.values()), default="")
        lacking = [broker for broker in brokers if broker not in known]
        await self._put(lacking, link.PutTopic(topic=config, create=True))
        return admin.CreateTopicResponse(brokers=brokers, existed=not lacking)

    async def update(
        self, ctx: CallContext, request: admin.UpdateTopicRequest
    ) -> admin.UpdateTopicResponse:
        """Raises `TopicNotFound`, `IllegalOwner`, `BadRequest`."""
        known = await self._known(request.name)
        if not known:
            raise TopicNotFound(topic=request.name)
        brokers = await self._brokers()
        config, settings = link.TopicConfig(), []
        config.CopyFrom(next(iter(known.values())))
        if request.HasField("message_type"):
            config.message_type = request.message_type
            settings.append("message_type")
        queues = request.queues if request.HasField("queues") else config.write_queues
        if queues != config.write_queues or request.place_groups_anew:
            config.order_conf = order_conf.conf_of(brokers, queues)
            settings.append("order_conf")
        if request.HasField("queues"):
            settings.append("queues")
        if request.HasField("owner"):
            config.owner = request.owner
            settings.append("owner")
        if not settings:
            raise BadRequest(reason="nothing to change was named")
        config.read_queues = config.write_queues = queues
        await self._put(brokers, link.PutTopic(topic=config, only_settings=settings))
        after = (await self._known(request.name)).values()
        found = max(after, key=lambda one: one.read_queues, default=config)
        return admin.UpdateTopicResponse(topic=topic_of(found), brokers=brokers)

    async def spread(
        self, ctx: CallContext, request: admin.SpreadTopicsRequest
    ) -> admin.SpreadTopicsResponse:
        """Raises `TopicNotFound` for a name that no broker knows."""
        brokers = await self._brokers()
        known = await self._users_topics(request.name)
        if request.name and not known:
            raise TopicNotFound(topic=request.name)
        response = admin.SpreadTopicsResponse()
        for name, (config, having) in sorted(known.items()):
            lacking = [broker for broker in brokers if broker not in having]
            if lacking:
                await self._put(lacking, link.PutTopic(topic=config, only_new=True))
                response.topics.add(name=name, brokers=lacking)
        return response

    async def delete(
        self, ctx: CallContext, request: admin.DeleteTopicRequest
    ) -> admin.DeleteTopicResponse:
        """Raises `TopicNotFound`."""
        known = await self._known(request.name)
        if not known:
            raise TopicNotFound(topic=request.name)
        for broker in known:
            call = link.Call(delete_topic=link.DeleteTopic(topic=request.name))
            await self._upstream.call(broker, call)
        self._upstream.routes.forget(request.name)
        return admin.DeleteTopicResponse()

    async def list_all(
        self, ctx: CallContext, request: admin.ListTopicsRequest
    ) -> admin.ListTopicsResponse:
        topics = {
            status.config.name: status.config
            for reply in (await self._all_settings()).values()
            for status in reply.topics
            if request.system or is_user_topic(status.config.name)
        }
        wanted = request.contains.lower()
        return admin.ListTopicsResponse(
            topics=[topic_of(topics[name]) for name in sorted(topics) if wanted in name.lower()],
            total=len(topics),
        )

    async def describe(
        self, ctx: CallContext, request: admin.DescribeTopicRequest
    ) -> admin.DescribeTopicResponse:
        """Raises `TopicNotFound`."""
        if request.settings_only:
            routes = await self._upstream.ask_brokers(request.name)
            if not routes:
                raise TopicNotFound(topic=request.name)
            return admin.DescribeTopicResponse(topic=topic_of(routes[0].topic))
        found = await self._upstream.described(link.Describe(topic=request.name))
        if not found:
            raise TopicNotFound(topic=request.name)
        configs = [reply.topics[0].config for reply in found.values()]
        response = admin.DescribeTopicResponse(
            topic=topic_of(max(configs, key=lambda config: config.read_queues))
        )
        for broker, reply in found.items():
            for queue in reply.topics[0].queues:
                response.queues.add(
                    broker=broker,
                    queue_id=queue.queue_id,
                    min_offset=queue.min_offset,
                    max_offset=queue.max_offset,
                )
        return response

    async def _known(self, name: str) -> dict[str, link.TopicConfig]:
        """As each broker that has it has it."""
        describe = link.Describe(topic=name, settings_only=True)
        found = await self._upstream.described(describe)
        return {broker: reply.topics[0].config for broker, reply in found.items()}

    async def _users_topics(self, name: str) -> dict[str, tuple[link.TopicConfig, set[str]]]:
        """By name: the settings, and the brokers that have it. `name`: that one alone."""
        if name:
            known = await self._known(name)
            return {name: (next(iter(known.values())), set(known))} if known else {}
        found: dict[str, tuple[link.TopicConfig, set[str]]] = {}
        for broker, reply in (await self._all_settings()).items():
            for status in reply.topics:
                if is_user_topic(status.config.name):
                    found.setdefault(status.config.name, (status.config, set()))[1].add(broker)
        return found

    async def _put(self, brokers: Sequence[str], put: link.PutTopic) -> None:
        for broker in brokers:
            await self._upstream.call(broker, link.Call(put_topic=put))
        self._upstream.routes.forget(put.topic.name)

    async def _all_settings(self) -> dict[str, link.DescribeReply]:
        """Of topics, by broker."""
        call = link.Call(describe=link.Describe(settings_only=True, no_groups=True))
        replies = await self._upstream.on_all_brokers(call)
        return {broker: reply.describe for broker, reply in replies.items()}

    async def _brokers(self) -> list[str]:
        """All that are registered, by name. Raises `NoBroker`."""
        return await self._upstream.registered()


def topic_of(config: link.TopicConfig) -> admin.Topic:
    return admin.Topic(
        name=config.name,
        message_type=config.message_type,
        queues=config.write_queues,
        read_queues=config.read_queues,
        owner=config.owner,
    )
