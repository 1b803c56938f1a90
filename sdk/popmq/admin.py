"""Topics, groups and dead letters from code.

async with Client("127.0.0.1:8081") as client:
    await client.admin.create_topic("orders", type="FIFO")
    await client.admin.create_group("billing", start="first", fifo=True)

Needs a PopMQ server, and where that has an admin secret, changes need `Client(admin_secret=…)`.
"""

from collections.abc import AsyncIterator
from typing import Any, Final, TypeVar, Unpack

import grpc

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq._core import topology as core
from popmq._core.topology import (
    DeadLetter,
    Group,
    GroupOptions,
    GroupQueue,
    Redriven,
    StartAt,
    Topic,
    TopicOptions,
    TopicQueue,
)
from popmq.connection import NO_ANSWER, Connection
from popmq.errors import GroupNotFound, RefusedByServer, TopicNotFound, error_of
from popmq_admin.v1 import admin_pb2 as admin

T = TypeVar("T")
TIMEOUT_S: Final = 10.0
"""Every broker is asked, so it may take longer than a send."""
_CODES: Final = {
    grpc.StatusCode.UNAUTHENTICATED: v2.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: v2.FORBIDDEN,
    grpc.StatusCode.INVALID_ARGUMENT: v2.BAD_REQUEST,
    grpc.StatusCode.RESOURCE_EXHAUSTED: v2.PRECONDITION_FAILED,
    grpc.StatusCode.UNIMPLEMENTED: v2.NOT_IMPLEMENTED,
}


class Admin:
    """`Client.admin`: of the client's namespace. Every method raises the errors of
    `popmq.errors`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._prefix = f"{connection.namespace}%" if connection.namespace else ""

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

    async def dead_letters(
        self, group: str, *, reason: str = "", topic: str = "", message_id: str = ""
    ) -> AsyncIterator[DeadLetter]:
        """Those that match, broker by broker, oldest first. `reason`: a part of it; `topic`: that
        they were sent to."""
        wanted = self._wanted(reason, topic, message_id)
        group = self._stored(group)
        request = admin.ListDeadLettersRequest(group=group, filter=wanted, whole=True)
        while True:
            response = await self._ask("ListDeadLetters", request, v2.CONSUMER_GROUP_NOT_FOUND)
            for letter in response.letters:
                yield core.dead_letter_of(letter, self._prefix)
            if not response.cursor:
                return
            request.cursor = response.cursor

    async def redrive_dead_letters(
        self,
        group: str,
        *,
        reason: str = "",
        topic: str = "",
        message_id: str = "",
        to_topic: bool = False,
    ) -> Redriven:
        """Send those that match again, each once, however often this is called: to the group alone,
        or with `to_topic` to their topics, where every group gets them."""
        which = admin.RedriveDeadLettersRequest(
            group=self._stored(group), filter=self._wanted(reason, topic, message_id)
        )
        sent = already = without_topic = in_order = 0
        while True:
            request = admin.RedriveRequest(which=which, to_topic=to_topic)
            response = await self._ask("Redrive", request, v2.CONSUMER_GROUP_NOT_FOUND)
            sent += response.sent
            already += response.already
            without_topic += response.without_topic
            in_order += response.in_order
            if not response.cursor:
                return Redriven(
                    sent=sent, already=already, without_topic=without_topic, in_order=in_order
                )
            which.cursor = response.cursor

    def _wanted(self, reason: str, topic: str, message_id: str) -> admin.DeadLetterFilter:
        stored = self._stored(topic) if topic else ""
        return admin.DeadLetterFilter(reason=reason, topic=stored, message_id=message_id)

    def _stored(self, name: str) -> str:
        """As the server names it."""
        return f"{self._prefix}{name}"

    async def _ask(self, rpc: str, request: Any, not_found: int) -> Any:
        """`not_found`: the code of what NOT_FOUND means here."""
        connection = self._connection
        method = getattr(connection.admin, rpc)

        async def ask() -> Any:
            try:
                return await method(
                    request, timeout=TIMEOUT_S, metadata=connection.admin_metadata()
                )
            except grpc.aio.AioRpcError as failed:
                if failed.code() in NO_ANSWER:
                    raise
                raise _refused(failed, rpc, not_found, connection.endpoint) from failed

        return await connection.retrying(ask)


def _refused(
    failed: grpc.aio.AioRpcError, rpc: str, not_found: int, endpoint: str
) -> RefusedByServer:
    text = failed.details() or failed.code().name
    if failed.code() is grpc.StatusCode.UNIMPLEMENTED:
        text = f"{endpoint} does not know {rpc}: it is no PopMQ, or an older one"
    if failed.code() is grpc.StatusCode.NOT_FOUND:
        return error_of(v2.Status(code=v2.Code.ValueType(not_found), message=text))
    code = _CODES.get(failed.code(), v2.INTERNAL_SERVER_ERROR)
    return error_of(v2.Status(code=code, message=text))
