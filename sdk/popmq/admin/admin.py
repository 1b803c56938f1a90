"""Topics, groups, dead letters, messages and transactions from code.

async with Client("127.0.0.1:8081") as client:
    await client.admin.create_topic("orders", type="FIFO")
    await client.admin.create_group("billing", start="first", fifo=True)

Needs a PopMQ server, and where that has an admin secret, changes need `Client(admin_secret=…)`.
"""

from typing import Final, Unpack

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core import topology as core
from popmq._core.topology import (
    Group,
    GroupOptions,
    GroupQueue,
    StartAt,
    Topic,
    TopicOptions,
    TopicQueue,
)
from popmq.admin.operations import Operations
from popmq.errors import GroupNotFound, TopicNotFound
from popmq_admin.v1 import admin_pb2 as admin

SPREAD_S: Final = 120.0
"""Topics are made one after the other."""


class Admin(Operations):
    """`Client.admin`: of the client's namespace. Every method raises the errors of
    `popmq.errors`."""

    async def create_topic(self, name: str, **options: Unpack[TopicOptions]) -> None:
        """Create it on every broker: NORMAL, with 8 queues, if nothing else is said. One that
        exists with other settings is refused: `ensure_topic` changes it."""
        topic = core.topic_request(self._stored(name), options)
        await self._ask("CreateTopic", admin.CreateTopicRequest(topic=topic), v2.TOPIC_NOT_FOUND)

    async def ensure_topic(self, name: str, **options: Unpack[TopicOptions]) -> bool:
        """Create it if it is not there, change what is given and differs. True: either was done."""
        found = await self.find_topic(name)
        if found is None:
            await self.create_topic(name, **options)
            return True
        change = core.topic_change(self._stored(name), found, options)
        if change is not None:
            await self._ask("UpdateTopic", change, v2.TOPIC_NOT_FOUND)
        return change is not None

    async def find_topic(self, name: str) -> Topic | None:
        """As brokers that answer have it; None: it is not there."""
        request = admin.DescribeTopicRequest(name=self._stored(name), settings_only=True)
        try:
            response = await self._ask("DescribeTopic", request, v2.TOPIC_NOT_FOUND)
        except TopicNotFound:
            return None
        return core.topic_of(response.topic, self._prefix)

    async def delete_topic(self, name: str) -> None:
        """And the messages in it."""
        await self._ask(
            "DeleteTopic", admin.DeleteTopicRequest(name=self._stored(name)), v2.TOPIC_NOT_FOUND
        )

    async def list_topics(self) -> list[Topic]:
        response = await self._ask("ListTopics", admin.ListTopicsRequest(), v2.TOPIC_NOT_FOUND)
        return [
            core.topic_of(found, self._prefix)
            for found in response.topics
            if found.name.startswith(self._prefix)
        ]

    async def describe_topic(self, name: str) -> tuple[Topic, list[TopicQueue]]:
        request = admin.DescribeTopicRequest(name=self._stored(name))
        response = await self._ask("DescribeTopic", request, v2.TOPIC_NOT_FOUND)
        return core.topic_of(response.topic, self._prefix), core.queues_of_topic(response)

    async def spread_topics(self, name: str = "") -> dict[str, list[str]]:
        """Put the topic, or all, on brokers that lack it: after a broker was added. The topics that
        some lacked, and which."""
        names = [name] if name else [topic.name for topic in await self.list_topics()]
        if not name and not self._prefix:
            names = [""]  # all of them, in one call
        spread: dict[str, list[str]] = {}
        for one in names:
            request = admin.SpreadTopicsRequest(name=self._stored(one) if one else "")
            response = await self._ask("SpreadTopics", request, v2.TOPIC_NOT_FOUND, SPREAD_S)
            for found in response.topics:
                spread[found.name.removeprefix(self._prefix)] = list(found.brokers)
        return spread

    async def create_group(self, name: str, **options: Unpack[GroupOptions]) -> None:
        """Create it on every broker: it starts at the last message, with 16 attempts, if nothing
        else is said. One that exists with other settings is refused: `ensure_group` changes it."""
        group = core.group_request(self._stored(name), options)
        request = admin.CreateGroupRequest(group=group)
        await self._ask("CreateGroup", request, v2.CONSUMER_GROUP_NOT_FOUND)

    async def ensure_group(self, name: str, **options: Unpack[GroupOptions]) -> bool:
        """Create it if it is not there, change what is given and differs. True: either was done.
        Where it is in its queues does not change."""
        found = await self.find_group(name)
        if found is None:
            await self.create_group(name, **options)
            return True
        change = core.group_change(self._stored(name), found, options)
        if change is not None:
            await self._ask("UpdateGroup", change, v2.CONSUMER_GROUP_NOT_FOUND)
        return change is not None

    async def find_group(self, name: str) -> Group | None:
        """As brokers that answer have it; None: it is not there."""
        request = admin.DescribeGroupRequest(name=self._stored(name), settings_only=True)
        try:
            response = await self._ask("DescribeGroup", request, v2.CONSUMER_GROUP_NOT_FOUND)
        except GroupNotFound:
            return None
        return core.group_of(response.group, self._prefix)

    async def delete_group(self, name: str) -> None:
        """And its place in every queue."""
        request = admin.DeleteGroupRequest(name=self._stored(name))
        await self._ask("DeleteGroup", request, v2.CONSUMER_GROUP_NOT_FOUND)

    async def list_groups(self) -> list[Group]:
        request = admin.ListGroupsRequest()
        response = await self._ask("ListGroups", request, v2.CONSUMER_GROUP_NOT_FOUND)
        return [
            core.group_of(found, self._prefix)
            for found in response.groups
            if found.name.startswith(self._prefix)
        ]

    async def describe_group(self, name: str) -> tuple[Group, list[GroupQueue]]:
        """And where it is in each queue."""
        request = admin.DescribeGroupRequest(name=self._stored(name))
        response = await self._ask("DescribeGroup", request, v2.CONSUMER_GROUP_NOT_FOUND)
        return core.group_of(response.group, self._prefix), core.queues_of_group(
            response, self._prefix
        )

    async def reset_group(self, name: str, topic: str, to: StartAt) -> None:
        """It goes on there in the topic; what it holds is no longer its own."""
        request = core.reset_request(self._stored(name), self._stored(topic), to)
        await self._ask("ResetOffsets", request, v2.CONSUMER_GROUP_NOT_FOUND)
