"""A client that behaves and calls as fast as it can: it is never cut off, and nothing is doubled.

grpcio sends two WINDOW_UPDATEs for each unary call and a PING now and then. These begin nothing,
and a front that only counted them would take such a client for an attacker.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from front.server import Server, serving

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from apache.rocketmq.v2 import service_pb2_grpc as service_grpc
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc

CALLS = 20_000
IN_FLIGHT = 32
FEW_FRAMES = {"POPMQ_PROXY_IDLE_FRAMES_MAX": "1000"}
"""A second: less than any machine's grpcio sends beside its calls."""
TOPIC = "many-calls"
METADATA = (("x-mq-client-id", "many@1@1@1"),)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving("http2", tmp_path, "--flush", "async", settings=FEW_FRAMES) as running:
        yield running


class Sending:
    """`CALLS` sends, `IN_FLIGHT` of them at a time; grpcio's threads begin the next ones."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._send = service_grpc.MessagingServiceStub(channel).SendMessage
        self._left = CALLS
        self._open = IN_FLIGHT
        self._lock = threading.Lock()
        self.failed: list[str] = []
        self.over = threading.Event()

    def begin(self) -> None:
        for _ in range(IN_FLIGHT):
            self._next()

    def _next(self) -> None:
        with self._lock:
            if not self._left or self.failed:
                self._open -= 1
                if not self._open:
                    self.over.set()
                return
            self._left -= 1
            number = self._left
        message = v2.Message(
            topic=v2.Resource(name=TOPIC),
            body=b"x",
            system_properties=v2.SystemProperties(message_id=f"01{number:08X}"),
        )
        request = service.SendMessageRequest(messages=[message])
        self._send.future(request, metadata=METADATA, timeout=60).add_done_callback(self._done)

    def _done(self, call: "grpc.Future[Any]") -> None:
        wrong = call.exception()
        if wrong is not None:
            self.failed.append(str(wrong))
        elif call.result().status.code != v2.OK:
            self.failed.append(str(call.result()))
        self._next()


@pytest.mark.timeout(180)
def test_twenty_thousand_unary_calls_are_all_answered_and_stored_once(server: Server) -> None:
    with grpc.insecure_channel(server.endpoint) as channel:
        sending = Sending(channel)
        sending.begin()
        assert sending.over.wait(150)
        asked = admin.DescribeTopicRequest(name=TOPIC)
        queues = admin_grpc.AdminStub(channel).DescribeTopic(asked, metadata=METADATA).queues
    assert not sending.failed, sending.failed[:3]
    assert sum(queue.max_offset for queue in queues) == CALLS
