"""The part of RocketMQ's remoting protocol by which an admin client makes topics and groups.

The suite makes a topic and a group for each test with it. PopMQ does not serve that protocol: this
port stands for a nameserver and a broker, and passes on what is asked to PopMQ's admin service.

A frame is its length, the length of its header with the header's encoding in the first byte (0 is
JSON, the only one here), header, body. A request with bit 1 of `flag` set wants no answer.
"""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "all-of-them"
FRAME_BYTES_MAX: Final = 1 << 20
ONEWAY: Final = 2
RESPONSE: Final = 1

UPDATE_AND_CREATE_TOPIC: Final = 17
GET_ROUTEINFO_BY_TOPIC: Final = 105
GET_BROKER_CLUSTER_INFO: Final = 106
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Final = 200
GET_TOPIC_STATS_INFO: Final = 202
GET_TOPIC_CONFIG: Final = 351

SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
REQUEST_CODE_NOT_SUPPORTED: Final = 3
TOPIC_NOT_EXIST: Final = 17


@dataclass(frozen=True, slots=True)
class Command:
    header: Mapping[str, Any]
    body: bytes = b""

    @property
    def fields(self) -> Mapping[str, str]:
        return self.header.get("extFields") or {}


def encode(command: Command) -> bytes:
    header = json.dumps(command.header).encode()
    return struct.pack(">II", 4 + len(header) + len(command.body), len(header)) + (
        header + command.body
    )


async def read(stream: asyncio.StreamReader) -> Command | None:
    """None when the other side is gone. Raises `ValueError` on what is no such frame."""
    try:
        size, header_size = struct.unpack(">II", await stream.readexactly(8))
        if header_size >> 24 or not header_size + 4 <= size <= FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {size} bytes with a header of {header_size:#x}")
        data = await stream.readexactly(size - 4)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return Command(json.loads(data[:header_size]), data[header_size:])


class Admin:
    """Answers requests. `address`: its own, which it tells as the broker's."""

    def __init__(self, stub: "admin_grpc.AdminAsyncStub") -> None:
        self._stub = stub
        self.address = ""
        self._calls: dict[int, Callable[[Command], Awaitable[bytes]]] = {
            UPDATE_AND_CREATE_TOPIC: self._create_topic,
            GET_ROUTEINFO_BY_TOPIC: self._route,
            GET_BROKER_CLUSTER_INFO: self._cluster,
            UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._create_group,
            GET_TOPIC_STATS_INFO: self._topic_stats,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. Requests are answered side by side: the suite's threads share it."""
        try:
            async with asyncio.TaskGroup() as answering:
                while request := await read(reader):
                    answering.create_task(self._answer_to(writer, request))
        finally:
            writer.close()

    async def _answer_to(self, writer: asyncio.StreamWriter, request: Command) -> None:
        response = await self._answer(request)
        if not request.header["flag"] & ONEWAY and not writer.is_closing():
            writer.write(encode(response))

    async def _answer(self, request: Command) -> Command:
        code, remark, body = SUCCESS, "", b""
        call = self._calls.get(request.header["code"])
        try:
            if request.header["code"] == GET_TOPIC_CONFIG:  # the client looks for a static topic
                code, remark = TOPIC_NOT_EXIST, "no topic is static"
            elif call is None:
                code, remark = REQUEST_CODE_NOT_SUPPORTED, f"request {request.header['code']}"
            else:
                body = await call(request)
        except grpc.aio.AioRpcError as failed:
            is_missing = failed.code() is grpc.StatusCode.NOT_FOUND
            code, remark = TOPIC_NOT_EXIST if is_missing else SYSTEM_ERROR, failed.details() or ""
        header = {"code": code, "flag": RESPONSE, "opaque": request.header["opaque"]}
        return Command({**header, "remark": remark, "language": "JAVA", "version": 0}, body)

    async def _create_topic(self, request: Command) -> bytes:
        attributes = dict(
            pair.lstrip("+").split("=") for pair in request.fields["attributes"].split(",")
        )
        topic = admin.Topic(
            name=request.fields["topic"],
            message_type=attributes["message.type"],
            queues=int(request.fields["readQueueNums"]),
        )
        await self._stub.CreateTopic(admin.CreateTopicRequest(topic=topic))
        return b""

    async def _create_group(self, request: Command) -> bytes:
        config = json.loads(request.body)
        group = admin.Group(name=config["groupName"], fifo=config["consumeMessageOrderly"])
        await self._stub.CreateGroup(admin.CreateGroupRequest(group=group))
        return b""

    async def _route(self, request: Command) -> bytes:
        """The cluster's name counts as a topic, too."""
        topic = request.fields["topic"]
        queues = [{"brokerName": BROKER, "readQueueNums": 8, "writeQueueNums": 8, "perm": 6}]
        if topic != CLUSTER:
            await self._stub.DescribeTopic(admin.DescribeTopicRequest(name=topic))
        return json.dumps({"brokerDatas": [self._broker()], "queueDatas": queues}).encode()

    async def _cluster(self, _: Command) -> bytes:
        table = {"brokerAddrTable": {BROKER: self._broker()}}
        return json.dumps({**table, "clusterAddrTable": {CLUSTER: [BROKER]}}).encode()

    async def _topic_stats(self, request: Command) -> bytes:
        """The keys of its table are objects: not JSON, but what RocketMQ's reader expects."""
        topic = request.fields["topic"]
        found = await self._stub.DescribeTopic(admin.DescribeTopicRequest(name=topic))
        rows = []
        for queue in found.queues:
            key = {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": topic}
            value = {"minOffset": queue.min_offset, "maxOffset": queue.max_offset}
            rows.append(f"{json.dumps(key)}:{json.dumps(value)}")
        return f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode()

    def _broker(self) -> dict[str, Any]:
        return {"cluster": CLUSTER, "brokerName": BROKER, "brokerAddrs": {"0": self.address}}


@asynccontextmanager
async def remoting_admin(endpoint: str) -> AsyncIterator[str]:
    """Serves on a free port and yields its address. `endpoint`: PopMQ's."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        answering = Admin(admin_grpc.AdminStub(channel))
        server = await asyncio.start_server(answering.serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        answering.address = f"{host}:{port}"
        try:
            yield answering.address
        finally:
            server.close()
